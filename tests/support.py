"""What tests build by hand: measurements of numpy functions, without a framework and without a process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Evidence, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import BEYOND, Points
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.judge.intents.declarations import Declarations
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.engine import measure
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.float64_truth import numbers
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.measure.states import OUTSIDE, REGULAR
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.protocol import LibraryFunction
from gradcheck_cli.subject.results import AUTO, CUSTOM, EAGER, VALUE, Floats, Kernel, Sample, Traces

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]  # of arrays whose first axis counts the points
Rule = Callable[..., Any]  # of such arrays and a cotangent; a tuple for several arguments


def balls_of(array: Array) -> Array:
    return array if array.dtype == object else np.asarray(exact(array))


@dataclass(frozen=True)
class Numbers:
    """A truth that numpy gives: a value of the arguments, and a gradient of them and a cotangent.

    `converted` says what numpy computes with: floats, or balls where a sum must be exact.
    `states` says what the gradient is at some numbers of the first argument, a kink at 0, say, and
    `value_states` what the value is.
    """

    value: Function
    gradient: Rule
    evidence: Evidence = Evidence.CERTIFIED
    normwise: bool = False
    over_reals: bool = True
    by_values: bool = False
    dear: bool = False
    judges_digits: bool = True
    mixed: bool = False
    converted: Function = numbers
    states: Mapping[float, int] = field(default_factory=dict)
    value_states: Mapping[float, int] = field(default_factory=dict)

    def decided_otherwise(self, by: float, seed: int) -> Iterable[Source]:
        """Nothing is known of what is decided on the way."""
        return ()

    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """No loop of its own."""
        return np.zeros(len(points[0]), bool)

    def exponents(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """Nothing is known of what is computed on the way."""
        return np.zeros(len(points[0]))

    def evaluate(self, points: Sequence[Array], cotangents: Sequence[Array], ask: Ask) -> Truth:
        xs, weights = (list(map(self.converted, arrays)) for arrays in (points, cotangents))
        both = [listed(self.value(*xs)), listed(self.gradient(*xs, *weights))]
        balls = [list(map(balls_of, arrays)) for arrays in both]
        states = [[np.where(np.isfinite(numbers(a)), REGULAR, OUTSIDE).astype(np.int8) for a in b] for b in balls]  # fmt: skip
        for own, places in zip(states, (self.value_states, self.states), strict=True):
            for each, (place, state) in itertools.product(own, places.items()):
                each[numbers(points[0]) == place] = state
        return Truth(*balls, *states)


IN_BALLS = partial(Numbers, converted=balls_of)


def listed(arrays: Any) -> list[Array]:
    return list(arrays) if isinstance(arrays, tuple) else [arrays]


@dataclass
class NumpySubject:
    """A subject that runs as the functions say, and computes nothing else."""

    floats: Mapping[str, Any]
    outputs: Sequence[tuple[int, ...]]
    signature: Signature
    alone: Mapping[str, Any] = field(default_factory=dict)  # what a call of one row gives instead
    has_rule: bool = True
    defaults: Mapping[str, object] = field(default_factory=dict)
    program: Any = None  # of the rule
    primal: Any = None  # the primal's program
    refused: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    sample: Sample | None = None
    modes: Sequence[str] = (EAGER,)
    kernels: Sequence[Kernel] = ()
    stays_on_cpu: str = ""
    ways: Sequence[OtherCall] = ()
    untraced: str | None = None  # why there is no program of the rule
    draws: Any = None  # gradients and values with other draws, as `with_new_draws` gives them

    @property
    def leaves(self) -> Sequence[Leaf]:
        return self.signature.leaves

    def limits_of_series(self, points: Any, cotangents: Any) -> None:
        return None

    def limits(self, points: Any, cotangents: Any) -> None:
        return None

    def in_float64(self, *, bare: bool = True) -> None:
        """It has floats of one kind."""

    def traces(self) -> Traces:
        return Traces(self.primal, self.program, reason=self.untraced)

    def other_calls(self) -> Sequence[OtherCall]:
        return self.ways

    def library_functions(self) -> Sequence[LibraryFunction]:
        return ()

    def refusal(self, dtype: str) -> Any:
        return self.refused.get(dtype)

    def with_new_draws(self, seeds: int, point: Any, cotangent: Any, ends: Any) -> Any:
        return None if self.draws is None else self.draws(seeds, point, cotangent, ends)

    def run(self, points: Any, cotangents: Any, modes: Any = None) -> Mapping[str, Floats]:
        value, rule_value = (self._rounded(self.floats[k](*points)) for k in ("primal", VALUE))
        args = (*points, *cotangents)
        custom = self._rounded(self.floats[CUSTOM](*args)) if self.has_rule else None
        auto = None if self.floats[AUTO] is None else self._rounded(self.floats[AUTO](*args))
        return {EAGER: Floats(value, rule_value, custom, auto)}

    def run_row(self, point: Any, cotangent: Any, mode: str, who: str) -> list[Array]:
        function = self.alone.get(who, self.floats[who])
        return self._rounded(function(*point) if who == VALUE else function(*point, *cotangent))

    def _rounded(self, values: Any) -> list[Array]:
        fmt = format_of(self.dtype)
        return [fmt.round(np.asarray(v, np.float64)) for v in listed(values)]


def measured(
    points: Any,
    value: Function,
    gradient: Rule,
    *,
    rule: Rule | None = None,
    rule_value: Function | None = None,
    reason: str | None = None,
    digits: int | None = None,
    truth: Callable[..., Numbers] = Numbers,
    beyond: int = 0,
    floats: Mapping[str, Any] | None = None,
    **subject: Any,
) -> Measurements:
    """Measurements of a value and its gradient at some points; whatever is not given is right.

    `points` are those of `x`, or for several arguments a mapping of their names; the first axis counts
    them. With a `reason`, the rule's formula is not known. `floats` and `alone` replace what the
    framework computes, by `value`, `custom` and `auto`: in a batch, or for one row by itself. As many
    of the last points as `beyond` says lie beyond the reach.
    """
    rule, rule_value = rule or gradient, rule_value or value
    named = points if isinstance(points, Mapping) else {"x": points}
    arrays = {name: np.asarray(rows, np.float64) for name, rows in named.items()}
    runs: Any = NumpySubject(
        {"primal": value, VALUE: rule_value, CUSTOM: rule, AUTO: gradient, **(floats or {})},
        outputs=[np.shape(out)[1:] for out in listed(value(*arrays.values()))],
        signature=Signature(tuple((n, Leaf(n, a.shape[1:], "test")) for n, a in arrays.items())),
        **subject,
    )
    formula = truth(rule_value, rule) if runs.has_rule and reason is None else None
    count = len(next(iter(arrays.values())))
    lattice = Points(list(arrays.values()), ["by hand"] * (count - beyond) + [BEYOND] * beyond)
    probes = [probe for law in LAWS for probe in law.plan(count, runs.outputs)]
    sources = Sources(truth(value, gradient), formula, digits, reason)
    return measure(runs, lattice, probes, sources, seed=0)


def mismatch(component: int = 0, rule: RuleName = RuleName.GRADIENT_MISMATCH) -> Failure:
    """What a law hands on when one component of the gradient is wrong."""
    ground = Ground(Kind.FORMULA, "by hand")
    return Failure(rule, Severity.ERROR, 0, GRADIENTS, component, ground, "it is wrong")


def declare(
    m: Measurements, name: str, argument: str | None = None, *failures: Failure
) -> list[Failure]:
    """What is left of the failures (of one, if none is given) where an intent is declared."""
    return Declarations([Declared(name, argument)]).answer(failures or [mismatch()], m)


def texts(failures: Sequence[Failure]) -> list[tuple[str, str]]:
    return [(f.rule.value, f.message) for f in failures]


def jax_subject(function: Callable[..., Any], shape: tuple[int, ...] = ()) -> Any:
    """A plain JAX function of one float32 array, as a subject; JAX is loaded where it is asked for."""
    from gradcheck_cli.frameworks.jax.fit import fit
    from gradcheck_cli.frameworks.jax.gradient import of_function
    from gradcheck_cli.subject.results import Place

    gradient = of_function(function, "f", Place(__file__, 1, "f"), lambda path: False, fit)
    return fit(gradient, Signature((("x", Leaf("x", shape, "test")),)), "float32")
