"""One torch custom gradient, as data: how it is called, what it differentiates, what its backward is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from gradcheck_cli.frameworks.shared.library import Library, Stable
from gradcheck_cli.frameworks.shared.made_anew import Anew
from gradcheck_cli.frameworks.shared.user_source import plain_functions
from gradcheck_cli.frameworks.torch.library import LIBRARY
from gradcheck_cli.inputs.parameters import annotation, declared
from gradcheck_cli.inputs.signature import Parameter, Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Place

FUNCTION, CLASS, CUSTOM_OP = "function", "Function", "custom_op"
# What of a gradient is called, and is another where its class is made again.
PARTS = ("primal", "rule", "forward", "backward", "setup")

Fitter = Callable[["TorchGradient", Signature, str], Subject]
Surroundings = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class TorchGradient:
    """`rule` is what user code calls; `forward` runs the primal with a context, `backward` the rule."""

    name: str
    kind: str
    place: Place
    primal: Callable[..., Any]  # as the user wrote it: its parameters name the inputs
    rule: Callable[..., Any]
    forward: Callable[..., Any]  # (context, *inputs) → outputs
    backward: Callable[..., Any] | None  # (context, *cotangents) → a gradient for each input
    fitter: Fitter
    skipped: int = 0  # parameters of `primal` that are not inputs: ctx
    written: Callable[..., Any] | None = None  # holds the text of the rule, if `backward` does not
    setup: Callable[..., Any] | None = None  # fills the context where forward itself does not
    reference: Callable[..., Any] | None = None  # what is differentiated instead of forward's body
    closed_over: frozenset[str] = frozenset()  # parameters that a rule inside reads, and gives none
    framework: str = field(default="torch")
    backend: str = field(default="torch")
    library: Library = LIBRARY  # whose stable functions are offered
    surroundings: Surroundings = nullcontext  # of every trace: what a library on torch needs
    anew: Anew | None = None  # how it is made again, if a factory or a method made it

    @property
    def spelling(self) -> str:
        return f"{self.name}.apply" if self.kind == CLASS else self.name

    def against(self, reference: Callable[..., Any]) -> TorchGradient:
        return replace(self, reference=reference, anew=None)

    @property
    def has_rule(self) -> bool:
        return self.backward is not None

    def rule_code(self) -> Sequence[FunctionType]:
        return plain_functions(self.written or self.backward)

    def parameters(self) -> Sequence[Parameter]:
        """The parameters of forward, without `ctx`."""
        is_tensor = _is_a_tensor if self.kind == CUSTOM_OP else _may_be_a_tensor
        plain = self.closed_over | frozenset(() if self.anew is None else self.anew.settings)
        return declared(
            self.primal, self.skipped, lambda _, p: p.name not in plain and is_tensor(p)
        )

    def fit(self, signature: Signature, dtype: str) -> Subject:
        made = self if self.anew is None else self.anew.at(self, signature)
        return self.fitter(made, signature, dtype)

    def stand_in(self, stable: Stable) -> TorchGradient:
        """A library function as a plain one, traced where this gradient is."""
        function = of_function(stable.function, stable.value, self.place, self.fitter)
        return replace(function, surroundings=self.surroundings)


def of_function(
    function: Callable[..., Any], name: str, place: Place, fitter: Fitter
) -> TorchGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return TorchGradient(
        name=name, kind=FUNCTION, place=place, primal=function, rule=function,
        forward=lambda ctx, *inputs, **keywords: function(*inputs, **keywords), backward=None,
        fitter=fitter,
    )  # fmt: skip


_NO_TENSORS = ("int", "bool", "str", "dim", "size", "device", "dtype")


def _is_a_tensor(parameter: inspect.Parameter) -> bool:
    """A custom op takes what it is annotated with, and nothing else."""
    return "Tensor" in (annotation(parameter) or "Tensor")


def _may_be_a_tensor(parameter: inspect.Parameter) -> bool:
    """A number or a flag by default is none: torch differentiates tensors only."""
    if parameter.default not in (parameter.empty, None):
        return False
    text = annotation(parameter)
    return text is None or text.rpartition(".")[2].lower() not in _NO_TENSORS
