"""One TensorFlow custom gradient, as data: what user code calls, its body, and its grad function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from gradcheck_cli.frameworks.shared.library import Library, Stable
from gradcheck_cli.frameworks.shared.made_anew import Anew
from gradcheck_cli.frameworks.shared.user_source import plain_functions
from gradcheck_cli.frameworks.tensorflow.library import LIBRARY
from gradcheck_cli.frameworks.tensorflow.random import Draws
from gradcheck_cli.inputs.parameters import annotation, declared
from gradcheck_cli.inputs.signature import Parameter, Signature
from gradcheck_cli.subject.protocol import Own, Subject
from gradcheck_cli.subject.results import Place

FUNCTION, CUSTOM, REGISTERED = "function", "custom_gradient", "RegisterGradient"

Fitter = Callable[["TfGradient", Signature, str], Subject]


@dataclass(frozen=True, slots=True)
class TfGradient:
    """`split` runs the body: (*inputs) → outputs and the grad function (None if there is none)."""

    name: str
    kind: str
    place: Place
    primal: Callable[..., Any]  # as the user wrote it: its parameters name the inputs
    rule: Callable[..., Any]
    split: Callable[..., tuple[Any, Any]]
    own: Own
    fitter: Fitter
    parameter_names: tuple[str, ...] = ()  # of an op, whose function says nothing
    settings: Mapping[str, bool | int | float] = field(default_factory=dict)  # attributes of an op
    specs: tuple[Any, ...] = ()  # of a `tf.function` around it: its input signature
    bound: int = 0  # leading parameters that are given already: self
    closed_over: frozenset[str] = (
        frozenset()
    )  # parameters that the rule reads, and gives no gradient
    left_out: frozenset[str] = (
        frozenset()
    )  # parameters of a whole that are tensors where they are given
    backend: str = field(default="tensorflow")
    framework: str = field(default="tensorflow")
    library: Library = LIBRARY  # whose stable functions are offered
    reference: Callable[..., Any] | None = None
    draws: Draws = field(default_factory=Draws)  # one for all gradients of a process
    anew: Anew | None = None  # how it is made again, if a factory or a method made it

    @property
    def spelling(self) -> str:
        return self.name

    @property
    def has_rule(self) -> bool:
        return self.kind != FUNCTION

    def against(self, reference: Callable[..., Any]) -> TfGradient:
        return replace(self, reference=reference, anew=None)

    def rule_code(self) -> Sequence[FunctionType]:
        return plain_functions(self.primal)

    def parameters(self) -> Sequence[Parameter]:
        if self.parameter_names:
            inputs = [Parameter(n, i, True, False) for i, n in enumerate(self.parameter_names)]
            after = enumerate(self.settings.items(), len(inputs))
            return [*inputs, *(Parameter(n, i, False, True, value) for i, (n, value) in after)]
        return declared(self.primal, self.bound, lambda _, p: self._differentiates(p))

    def _differentiates(self, parameter: inspect.Parameter) -> bool:
        if parameter.name in self.left_out:
            return True
        return parameter.name not in self.closed_over and _may_be_a_tensor(parameter)

    def fit(self, signature: Signature, dtype: str) -> Subject:
        made = self if self.anew is None else self.anew.at(self, signature)
        return self.fitter(made, signature, dtype)

    def stand_in(self, stable: Stable) -> TfGradient:
        """A library function as a plain one."""
        return of_function(stable.function, stable.value, self.place, self.own, self.fitter)


def of_function(
    function: Callable[..., Any], name: str, place: Place, own: Own, fitter: Fitter
) -> TfGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return TfGradient(
        name=name, kind=FUNCTION, place=place, primal=function, rule=function,
        split=lambda *args, **kwargs: (function(*args, **kwargs), None), own=own,
        fitter=fitter,
    )  # fmt: skip


_NO_TENSORS = ("int", "bool", "str")


def _may_be_a_tensor(parameter: inspect.Parameter) -> bool:
    """A keyword gets no gradient, and what is left to its default is no input of the call."""
    if parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY:
        return False
    return annotation(parameter) not in _NO_TENSORS
