"""One TensorFlow custom gradient, as data: what user code calls, its body, and its grad function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from gradcheck_cli.frameworks.shared.library import Library
from gradcheck_cli.frameworks.shared.user_source import plain_functions
from gradcheck_cli.inputs.parameters import annotation, declared
from gradcheck_cli.inputs.signature import Parameter, Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Place

FUNCTION = "function"
Own = Callable[[str], bool]


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
    fitter: Callable[[TfGradient, Signature, str], Subject]
    parameter_names: tuple[str, ...] = ()  # of an op, whose function says nothing
    specs: tuple[Any, ...] = ()  # of a `tf.function` around it: its input signature
    bound: int = 0  # leading parameters that are given already: self
    backend: str = field(default="tensorflow")
    framework: str = field(default="tensorflow")
    library: Library | None = None  # whose stable functions are offered, if not TensorFlow's own
    reference: Callable[..., Any] | None = None

    @property
    def spelling(self) -> str:
        return self.name

    @property
    def has_rule(self) -> bool:
        return self.kind != FUNCTION

    def against(self, reference: Callable[..., Any]) -> TfGradient:
        return replace(self, reference=reference)

    def rule_code(self) -> Sequence[FunctionType]:
        return plain_functions(self.primal)

    def parameters(self) -> Sequence[Parameter]:
        if self.parameter_names:
            return [Parameter(n, i, True, False) for i, n in enumerate(self.parameter_names)]
        return declared(self.primal, self.bound, lambda _, p: _may_be_a_tensor(p))

    def fit(self, signature: Signature, dtype: str) -> Subject:
        return self.fitter(self, signature, dtype)


_NO_TENSORS = ("int", "bool", "str")


def _may_be_a_tensor(parameter: inspect.Parameter) -> bool:
    """A keyword gets no gradient, and what is left to its default is no input of the call."""
    if parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY:
        return False
    return annotation(parameter) not in _NO_TENSORS
