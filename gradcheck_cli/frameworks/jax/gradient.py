"""One JAX custom gradient, as data: how it is called, what the user wrote of it, what fits it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from gradcheck_cli.frameworks.shared.library import Library
from gradcheck_cli.inputs.parameters import declared
from gradcheck_cli.inputs.signature import Parameter, Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Place

FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class JaxGradient:
    """`rule` is what user code calls (with its custom derivative), `primal` what it differentiates."""

    name: str
    kind: str
    place: Place
    rule: Callable[..., Any]
    primal: Callable[..., Any]
    own: Callable[[str], bool]
    fitter: Callable[[JaxGradient, Signature, str], Subject]
    written: tuple[FunctionType, ...] = ()  # the functions that the user gave as the rule
    nondiff: frozenset[int] = frozenset()
    only_first: bool = False
    bound: tuple[Any, ...] = ()
    framework: str = field(default="jax")
    backend: str = field(default="jax")
    library: Library | None = None  # whose stable functions are offered, if not JAX's own

    @property
    def spelling(self) -> str:
        return self.name

    def against(self, reference: Callable[..., Any]) -> JaxGradient:
        return replace(self, primal=reference)

    def rule_code(self) -> Sequence[FunctionType]:
        return self.written

    @property
    def has_rule(self) -> bool:
        return self.kind != FUNCTION

    def parameters(self) -> Sequence[Parameter]:
        """The parameters that a call must or may fill (a bound `self` is not one)."""
        count = getattr(self.primal, "nin", None)
        if isinstance(count, int):  # a ufunc: its signature says nothing
            names = ["x"] if count == 1 else [f"x{i + 1}" for i in range(count)]
            return [Parameter(n, i, True, False) for i, n in enumerate(names)]
        filled = self.primal.keywords if isinstance(self.primal, functools.partial) else ()
        return declared(self.primal, len(self.bound), self._is_differentiated, filled)

    def _is_differentiated(self, index: int, _: inspect.Parameter) -> bool:
        return index not in self.nondiff and not (self.only_first and index > 0)

    def fit(self, signature: Signature, dtype: str) -> Subject:
        return self.fitter(self, signature, dtype)

    def called(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return functools.partial(fun, *self.bound) if self.bound else fun
