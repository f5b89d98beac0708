"""A custom gradient that takes what a function says, without a framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from gradcheck_cli.inputs.parameters import declared
from gradcheck_cli.inputs.signature import OMITTED, Hints, Leaf, Parameter, Signature, filled
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Kernel, Place, Traces

NO_HINTS = Hints(keys={}, unpacked={}, functions=[])


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    return declared(function, 0, lambda index, parameter: True)


@dataclass
class Fitted:
    """A subject that evaluates the function with numpy."""

    function: Callable[..., Any]
    signature: Signature
    dtype: str
    outputs: Sequence[tuple[int, ...]]
    beyond: str = ""  # what is said of a read beyond the end of an array
    kernels: Sequence[Kernel] = ()

    @property
    def leaves(self) -> Sequence[Leaf]:
        return self.signature.leaves

    def reads_beyond(self) -> str:
        return self.beyond

    def traces(self) -> Traces:
        return Traces(None, None)

    def primal_values(self, points: Sequence[Any]) -> list[Any]:
        rows = zip(*points, strict=True)
        return [np.stack([call(self.function, self.signature, row) for row in rows])]


def call(function: Callable[..., Any], signature: Signature, arrays: Sequence[Any]) -> Any:
    supply = iter(arrays)
    values = {name: filled(value, supply) for name, value in signature.arguments}
    if any("[" in name for name in values):  # behind a star all go by their places
        return np.asarray(function(*values.values()))
    return np.asarray(function(**{n: v for n, v in values.items() if v is not OMITTED}))


@dataclass
class Gradient:
    """A numpy function as a custom gradient; what it raises refuses a signature."""

    function: Callable[..., Any]
    asked: list[Signature] = field(default_factory=list)  # every signature that it was offered
    reading: Callable[[Signature], str] = lambda signature: ""  # says what is read beyond an end

    def parameters(self) -> list[Parameter]:
        return parameters_of(self.function)

    @property
    def place(self) -> Place:
        return Place(__file__, 1, "function")

    def rule_code(self) -> list[FunctionType]:
        return []

    def fit(self, signature: Signature, dtype: str) -> Any:
        self.asked.append(signature)
        try:
            out = call(self.function, signature, [np.ones(leaf.shape) for leaf in signature.leaves])
        except (TypeError, ValueError, IndexError) as error:
            raise Rejected(str(error)) from None
        beyond = self.reading(signature)
        return Fitted(self.function, signature, dtype, [out.shape], beyond)


def shapes(subject: Any) -> dict[str, tuple[int, ...]]:
    return {leaf.path: leaf.shape for leaf in subject.leaves}


def fixed(signature: Signature) -> dict[str, Any]:
    return {n: v.value for n, v in signature.arguments if not isinstance(v, Leaf) and hasattr(v, "value")}  # fmt: skip
