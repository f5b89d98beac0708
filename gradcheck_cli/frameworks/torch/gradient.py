"""One torch custom gradient: how it is called, what it differentiates, what its backward is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from gradcheck_cli.frameworks.seam import Place
from gradcheck_cli.frameworks.source import plain_functions
from gradcheck_cli.frameworks.stable import Library
from gradcheck_cli.frameworks.torch.context import Context
from gradcheck_cli.inputs.parameters import annotation, declared
from gradcheck_cli.inputs.spec import Parameter, Signature

FUNCTION, CLASS, CUSTOM_OP = "function", "Function", "custom_op"


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
    skipped: int = 0  # parameters of `primal` that are not inputs: ctx
    written: Callable[..., Any] | None = None  # holds the text of the rule, if `backward` does not
    reference: Callable[..., Any] | None = None  # what is differentiated instead of forward's body
    framework: str = field(default="torch")
    backend: str = field(default="torch")
    library: Library | None = None  # whose stable functions are offered, if not torch's own
    declined: set[str] = field(default_factory=set)  # arguments that turned out to be numbers

    @property
    def spelling(self) -> str:
        return f"{self.name}.apply" if self.kind == CLASS else self.name

    def against(self, reference: Callable[..., Any]) -> TorchGradient:
        return replace(self, reference=reference)

    @property
    def has_rule(self) -> bool:
        return self.backward is not None

    def rule_code(self) -> Sequence[FunctionType]:
        return plain_functions(self.written or self.backward)

    def parameters(self) -> Sequence[Parameter]:
        """Those of forward, without `ctx`."""
        return declared(
            self.primal,
            self.skipped,
            lambda p: p.name not in self.declined and _may_be_a_tensor(p),
        )

    def fit(self, signature: Signature, dtype: str) -> Any:
        from gradcheck_cli.frameworks.torch.subject import fit_subject

        return fit_subject(self, signature, dtype)


_NO_TENSORS = ("int", "bool", "str", "dim", "size", "device", "dtype")


def _may_be_a_tensor(parameter: inspect.Parameter) -> bool:
    """A number or a flag by default is none: torch differentiates tensors only."""
    if parameter.default not in (parameter.empty, None):
        return False
    text = annotation(parameter)
    return text is None or text.rpartition(".")[2].lower() not in _NO_TENSORS


def of_class(cls: Any, place: Place) -> TorchGradient:
    """A subclass of `torch.autograd.Function`, in either style."""
    import torch

    separate = cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context

    def forward(ctx: Context, *inputs: Any) -> Any:
        if not separate:
            return cls.forward(ctx, *inputs)
        output = cls.forward(*inputs)
        cls.setup_context(ctx, inputs, output)
        return output

    skipped = 0 if separate else 1
    return TorchGradient(
        name=cls.__name__, kind=CLASS, place=place, primal=cls.forward, rule=cls.apply,
        forward=forward, backward=cls.backward, skipped=skipped,
    )  # fmt: skip


def of_custom_op(op: Any, place: Place) -> TorchGradient | None:
    """A `torch.library.custom_op` with `register_autograd`; None if it has no derivative."""
    backward, setup, body = op._backward_fn, op._setup_context_fn, op._init_fn
    if backward is None:
        return None

    def forward(ctx: Context, *inputs: Any) -> Any:
        output = body(*inputs)
        if setup is not None:
            setup(ctx, inputs, output)
        return output

    return TorchGradient(
        name=body.__name__, kind=CUSTOM_OP, place=place, primal=body, rule=op, forward=forward,
        backward=backward,
    )  # fmt: skip


def of_function(function: Callable[..., Any], name: str, place: Place) -> TorchGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return TorchGradient(
        name=name, kind=FUNCTION, place=place, primal=function, rule=function,
        forward=lambda ctx, *inputs: function(*inputs), backward=None,
    )  # fmt: skip
