"""One JAX custom gradient, as data: how it is called, what the user wrote of it, what fits it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from gradcheck_cli.frameworks.jax.kernels import interpret_kernels
from gradcheck_cli.frameworks.jax.library import LIBRARY
from gradcheck_cli.frameworks.shared.library import Library, Stable
from gradcheck_cli.frameworks.shared.made_anew import Anew
from gradcheck_cli.inputs.parameters import declared
from gradcheck_cli.inputs.signature import Parameter, Signature
from gradcheck_cli.subject.protocol import Own, Subject
from gradcheck_cli.subject.results import Place

FUNCTION = "function"

Fitter = Callable[["JaxGradient", Signature, str], Subject]


@dataclass(frozen=True, slots=True)
class JaxGradient:
    """`rule` is what user code calls (with its custom derivative), `primal` what it differentiates."""

    name: str
    kind: str
    place: Place
    rule: Callable[..., Any]
    primal: Callable[..., Any]
    own: Own
    fitter: Fitter
    written: tuple[FunctionType, ...] = ()  # the functions that the user gave as the rule
    nondiff: frozenset[int] = frozenset()
    only_first: bool = False
    bound: tuple[Any, ...] = ()
    framework: str = field(default="jax")
    backend: str = field(default="jax")
    library: Library = LIBRARY  # whose stable functions are offered
    makes_weights: bool = False  # at its first call, which must not be a trace
    anew: Anew | None = None  # how it is made again, if a factory or a method made it

    @property
    def spelling(self) -> str:
        return self.name

    def against(self, reference: Callable[..., Any]) -> JaxGradient:
        return replace(self, primal=reference, anew=None)

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

    def _is_differentiated(self, index: int, parameter: inspect.Parameter) -> bool:
        if self.anew is not None and parameter.name in self.anew.settings:
            return parameter.name in self.anew.learned
        return index not in self.nondiff and not (self.only_first and index > 0)

    def fit(self, signature: Signature, dtype: str) -> Subject:
        interpret_kernels()  # Pallas may have been imported by a call
        made = self if self.anew is None else self.anew.at(self, signature)
        return self.fitter(made, signature, dtype)

    def called(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return functools.partial(fun, *self.bound) if self.bound else fun

    def stand_in(self, stable: Stable) -> JaxGradient:
        """A library function as a plain one: no rule in it is the user's own."""
        return of_function(
            stable.function, stable.value, self.place, lambda path: False, self.fitter
        )


def of_function(
    function: Callable[..., Any], name: str, place: Place, own: Own, fitter: Fitter
) -> JaxGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return JaxGradient(
        name=name, kind=FUNCTION, place=place, rule=function, primal=function, own=own, fitter=fitter,
    )  # fmt: skip
