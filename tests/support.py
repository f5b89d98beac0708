"""What tests build by hand: measurements of numpy functions, without a framework and without a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.measure.ball_truth import Ask, Truth
from gradcheck_cli.measure.engine import measure
from gradcheck_cli.measure.float64_truth import numbers
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.measure.states import OUTSIDE, REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.results import CUSTOM, EAGER, VALUE, Floats, Traces

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]
Rule = Callable[[Array, Array], Array]  # of a point and a cotangent

SIGNATURE = Signature((("x", Leaf("x", (), "test")),))


@dataclass(frozen=True)
class Numbers:
    """A truth that numpy gives: a value of x, and a gradient of x and a cotangent."""

    value: Function
    gradient: Rule
    evidence: Evidence = Evidence.CERTIFIED
    normwise: bool = False
    over_reals: bool = True
    by_values: bool = False
    dear: bool = False
    judges_digits: bool = True

    def evaluate(self, points: Sequence[Array], cotangents: Sequence[Array], ask: Ask) -> Truth:
        x, weight = numbers(points[0]), numbers(cotangents[0])
        both = (self.value(x), self.gradient(x, weight))
        balls = [[np.asarray(exact(a))] for a in both]
        states = [[np.where(np.isfinite(a), REGULAR, OUTSIDE).astype(np.int8)] for a in both]
        return Truth(*balls, *states)


@dataclass
class Scalar:
    """A subject of one number and one result, which runs as the functions say."""

    floats: Mapping[str, Any]
    alone: Mapping[str, Any]  # what a call of one row gives instead
    has_rule: bool = True
    program: Any = None  # of the rule
    refused: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    outputs: Sequence[tuple[int, ...]] = ((),)
    signature: Signature = SIGNATURE
    sample: None = None
    modes: Sequence[str] = (EAGER,)
    other_ways: Sequence[OtherCall] = ()

    @property
    def leaves(self) -> Sequence[Leaf]:
        return self.signature.leaves

    def traces(self) -> Traces:
        return Traces(None, self.program)

    def other_calls(self) -> Sequence[OtherCall]:
        return self.other_ways

    def refusal(self, dtype: str) -> Any:
        return self.refused.get(dtype)

    def run(self, points: Any, cotangents: Any, modes: Any = None) -> Mapping[str, Floats]:
        x, weight = points[0], cotangents[0]
        value, rule_value = (self._rounded(self.floats[k](x)) for k in ("primal", VALUE))
        custom, auto = (self._rounded(self.floats[k](x, weight)) for k in (CUSTOM, "auto"))
        return {EAGER: Floats([value], [rule_value], [custom] if self.has_rule else None, [auto])}

    def run_row(self, point: Any, cotangent: Any, mode: str, who: str) -> list[Array]:
        function = self.alone.get(who, self.floats[who])
        args = (point[0],) if who == VALUE else (point[0], cotangent[0])
        return [self._rounded(function(*args))]

    def _rounded(self, values: Array) -> Array:
        return format_of(self.dtype).round(np.asarray(values, np.float64))


def measured(
    points: Sequence[float],
    value: Function,
    gradient: Rule,
    *,
    rule: Rule | None = None,
    rule_value: Function | None = None,
    has_rule: bool = True,
    reason: str | None = None,
    floats: Mapping[str, Any] | None = None,
    alone: Mapping[str, Any] | None = None,
    ways: Sequence[OtherCall] = (),
) -> Measurements:
    """Measurements of a value and its gradient at some points; whatever is not given is right.

    With a `reason`, the rule's formula is not known. `floats` and `alone` replace what the framework
    computes, by `value`, `custom` and `auto`: in a batch, or for one row by itself.
    """
    rule, rule_value = rule or gradient, rule_value or value
    right = {"primal": value, VALUE: rule_value, CUSTOM: rule, "auto": gradient}
    subject: Any = Scalar({**right, **(floats or {})}, alone or {}, has_rule, other_ways=ways)
    formula = Numbers(rule_value, rule) if has_rule and reason is None else None
    lattice = Points([np.array(points, np.float64)], ["by hand"] * len(points))
    probes = [probe for law in LAWS for probe in law.plan(len(points), [()])]
    sources = Sources(Numbers(value, gradient), formula, reason=reason)
    return measure(subject, lattice, probes, sources, seed=0)


def jax_subject(function: Callable[..., Any], shape: tuple[int, ...] = ()) -> Any:
    """A plain JAX function of one float32 array, as a subject; JAX is loaded where it is asked for."""
    from gradcheck_cli.frameworks.jax.fit import fit
    from gradcheck_cli.frameworks.jax.gradient import of_function
    from gradcheck_cli.subject.results import Place

    gradient = of_function(function, "f", Place(__file__, 1, "f"), lambda path: False, fit)
    return fit(gradient, Signature((("x", Leaf("x", shape, "test")),)), "float32")
