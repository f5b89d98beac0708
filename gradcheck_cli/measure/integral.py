"""A third opinion on a rule (SEMANTICS F): the change of the primal against the integral of the rule.

Autodiff differentiates the program, not the function; a right rule for a
bisection differs from it. Along segments x → x + v the two must agree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gradcheck_cli.contract.limits import GROWTH, NODES, SEGMENTS, half_of_the_digits
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.own_slope import moves_by_the_truth
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.facts import LOOPS, named
from gradcheck_cli.reals.program import Program, Step
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.results import Sample

Array = np.ndarray[Any, Any]

_ASK = Ask(goal=80, ties=False, nudged=False, most_bits=1024)
# With these, the derivative of the program may be another than the function's.
_NOT_BY_THE_CHAIN_RULE = named(lambda facts: not facts.smooth)
_STEPS = named(lambda facts: facts.steps)
_NEAREST, _FEWEST = (
    2,
    3,
)  # of the segments: those that tell of the place itself; how many give an opinion
_PANELS = 4
# Those of each segment where a program has loops: if they do not fit, all are asked.
_FEW_PANELS = (1, 1, 2, 4, 4)


class Opinion(Enum):
    """What the integral of a rule says about the rule."""

    RIGHT = "right"
    WRONG = "wrong"
    STEP = "step"  # the primal is a step function
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ThirdOpinion:
    """An opinion on a rule at one point, with the numbers that it rests on, a scale each."""

    opinion: Opinion
    residuals: tuple[float, ...] = ()
    changes: tuple[float, ...] = ()
    tried: int = 0  # segments, whether or not they gave numbers
    against: bool = False  # on the largest scale that gave numbers the rule goes down where the function goes up

    @property
    def settles(self) -> bool:
        """Does the residual stay where it is as v grows, as an iteration's tolerance does?"""
        enough = len(self.residuals) >= 3 and all(map(math.isfinite, self.residuals))
        return enough and self.residuals[-1] <= GROWTH.value * self.residuals[0]

    @property
    def constant(self) -> bool:
        """Does the function not change at any scale, as at the end of a bracket?"""
        return bool(self.changes) and not any(self.changes)

    @property
    def smooth(self) -> bool:
        """Does the function change in proportion to v, as what a bisection finds, and as no step function does?"""
        if len(self.changes) < max(self.tried, _FEWEST) or not all(self.changes):
            return False
        slopes = [c / v for c, v in zip(self.changes, SEGMENTS.value, strict=False)]
        return max(slopes) <= GROWTH.value * min(slopes)


# Where the integral could only repeat what autodiff or differences have shown.
SURELY_WRONG = ThirdOpinion(Opinion.WRONG)


_Place = tuple[int, tuple[int, int] | None]
_ASKED: WeakKeyDictionary[Measurements, dict[_Place, ThirdOpinion | None]] = WeakKeyDictionary()


def third_opinion(m: Measurements, row: int, part: slice | None = None) -> ThirdOpinion | None:
    """What the integral of the rule says at one row, of all arguments at once or of these components; it is asked once."""
    known = _ASKED.setdefault(m, {})
    place = (row, None if part is None else (part.start, part.stop))
    if place not in known:
        known[place] = _third_opinion(m, row, part)
    return known[place]


def iterates(m: Measurements) -> bool:
    """Does the function hold a loop, whose derivative may be another than its program's?"""
    primal = m.subject.traces().primal
    return bool(m.sources.seeks) or (primal is not None and bool(primal.primitives() & LOOPS))


def _third_opinion(m: Measurements, row: int, part: slice | None) -> ThirdOpinion | None:
    """An opinion, where it can say more than the truth does."""
    if m.sources.rule is None:
        return None
    if m.sources.primal.by_values:
        return SURELY_WRONG  # differences look at the function already, not at its program
    primal = m.subject.traces().primal
    if m.dear and primal is not None and not primal.primitives() & _NOT_BY_THE_CHAIN_RULE:
        return SURELY_WRONG  # no loop, no step: autodiff is the derivative
    point, cotangent = [p[row] for p in m.points], [c[row] for c in m.cotangents]
    parts = m.subject.sample
    moving = None if part is None else _alone(m, part)
    loops = iterates(m)
    opinion = by_integral(
        m.sources.primal, m.sources.rule, point, cotangent, m.fmt.eps, m.seed, parts, moving,
        sparing=loops,
    )  # fmt: skip
    if part is None or opinion.opinion is not Opinion.RIGHT or loops or _takes_steps(primal):
        return opinion
    return SURELY_WRONG if moves_by_the_truth(m, row, part) else opinion


def _takes_steps(primal: Program | None) -> bool:
    """Does the function round, or turn floats into integers? Between its jumps it has a slope, which is not its own."""
    steps = [] if primal is None else primal.all_steps()
    return primal is None or any(s.name in _STEPS or _to_integers(s) for s in steps)


def _to_integers(step: Step) -> bool:
    if step.name != "convert_element_type":
        return False
    given, made = step.in_avals[0].dtype, step.out_avals[0].dtype
    return bool(np.issubdtype(given, np.inexact) and np.issubdtype(made, np.integer))


def _alone(m: Measurements, part: slice) -> Sample:
    """All that is judged of the outputs, and these components of the arguments."""
    outputs = tuple(elements for _, elements in m.components(VALUES))
    leaves: list[Array] = []
    start = 0
    for _, elements in m.components(GRADIENTS):
        first, last = (max(0, end - start) for end in (part.start, part.stop))
        leaves.append(elements[first:last])
        start += len(elements)
    return Sample(outputs, tuple(leaves))


def _kept(arrays: Sequence[Array], elements: Sequence[Array]) -> list[Array]:
    """The arrays with zeros in the place of all elements but these."""
    kept = []
    for array, chosen in zip(arrays, elements, strict=True):
        zeros = np.zeros_like(array)
        zeros.reshape(-1)[chosen] = array.reshape(-1)[chosen]
        kept.append(zeros)
    return kept


def _line(arrays: Sequence[Array], elements: Sequence[Array] | None) -> Array:
    """The judged elements of all arrays in one line."""
    if elements is None:
        return np.asarray(columns([a[None] for a in arrays], 1)[0])
    chosen = [a.reshape(-1)[e] for a, e in zip(arrays, elements, strict=True)]
    return np.asarray(np.concatenate([np.zeros(0), *chosen]))


def by_integral(
    primal: Source,
    rule: Source,
    point: Sequence[Array],
    cotangent: Sequence[Array],
    eps: float,
    seed: int,
    parts: Sample | None = None,
    moving: Sample | None = None,
    sparing: bool = False,
) -> ThirdOpinion:
    """Compare ȳ·(f(x+v) − f(x)) with ∫⟨rule(x+tv, ȳ), v⟩dt at several sizes of v.

    `parts` are the components that the sources give. What is not `moving` is zero in v and ȳ; all of the
    parts are, if that is left out. `sparing` takes fewer nodes first, for what is dear.
    """
    residuals: list[float] = []
    changes: list[float] = []
    against = False
    tried = 0
    direction = _direction(point, seed)
    moving = moving or parts
    if moving is not None:
        direction, cotangent = _kept(direction, moving.leaves), _kept(cotangent, moving.outputs)
    for few, scale in zip(_FEW_PANELS, SEGMENTS.value, strict=True):
        tried += 1
        step = [d * scale for d in direction]
        pair = None
        if sparing:
            pair = _compare(primal, rule, point, cotangent, step, parts, few)
        if pair is None or any(_off([abs(pair[0])], [abs(pair[1])], eps)):
            pair = _compare(primal, rule, point, cotangent, step, parts, _PANELS)
        if pair is None:
            continue
        gap, change = pair
        residuals.append(abs(gap))
        changes.append(abs(change))
        against = change * (change - gap) < 0
        if any(changes) and len(residuals) >= _FEWEST and not _off_nearby(residuals, changes, eps):
            break  # what comes further off is another place
    opinion = _opinion(residuals, changes, eps)
    return ThirdOpinion(opinion, tuple(residuals), tuple(changes), tried, against)


def _opinion(residuals: Sequence[float], changes: Sequence[float], eps: float) -> Opinion:
    if len(residuals) < _FEWEST:
        return Opinion.OPEN
    if not _off_nearby(residuals, changes, eps):
        return Opinion.RIGHT  # further off is another place, or it bends too much for the nodes
    if all(map(math.isinf, residuals)):
        return Opinion.WRONG  # beyond what any float holds, where the function changes by a number
    if any(map(math.isinf, residuals)):  # the others say what there is to say
        finite = [(r, c) for r, c in zip(residuals, changes, strict=True) if math.isfinite(r)]
        return _opinion([r for r, _ in finite], [c for _, c in finite], eps)
    over = _off(residuals, changes, eps)
    first, last = residuals[0], residuals[-1]
    grown = last > GROWTH.value * first if first > 0 else last > 0
    if over[-1] and grown:
        return Opinion.WRONG
    if not over[-1] and not grown:
        return Opinion.RIGHT  # an iteration's own tolerance, the same at every scale
    if over[-1] and not grown:
        return Opinion.STEP
    # Right on the large scale, wrong within a small radius.
    return Opinion.WRONG if over[0] else Opinion.OPEN


def _off_nearby(residuals: Sequence[float], changes: Sequence[float], eps: float) -> bool:
    """Is the rule off on one of the nearest segments?"""
    return any(_off(residuals, changes, eps)[:_NEAREST])


def _off(residuals: Sequence[float], changes: Sequence[float], eps: float) -> list[bool]:
    """On which segments the residual is more than the digits of a float allow."""
    part = half_of_the_digits(eps)
    return [r > part * change for r, change in zip(residuals, changes, strict=True)]


def _direction(point: Sequence[Array], seed: int) -> list[Array]:
    """One joint direction, scaled to the size of each argument."""
    rng = np.random.default_rng(seed)
    direction = []
    for x in point:
        size = float(np.abs(x).max(initial=0)) or 1.0
        direction.append(np.round((0.5 + rng.random(x.shape)) * 64) / 64 * size)
    return direction


@functools.cache
def _gauss() -> tuple[list[float], list[float]]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES.value)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


def _compare(
    primal: Source,
    rule: Source,
    point: Sequence[Array],
    cotangent: Sequence[Array],
    step: Sequence[Array],
    parts: Sample | None,
    panels: int,
) -> tuple[float, float] | None:
    """The change of ȳ·f along one segment less the integral of the rule, by panels of Gauss nodes; and the change.

    The first may be beyond what floats hold: then it is infinite.
    """
    nodes, weights = _gauss()
    ts = [(k + t) / panels for k in range(panels) for t in nodes]
    ws = [w / panels for _ in range(panels) for w in weights]

    def at(t: Sequence[float]) -> list[Array]:
        line = np.array(t)
        return [
            exact(x[None] + line.reshape(-1, *(1,) * x.ndim) * v[None])
            for x, v in zip(point, step, strict=True)
        ]

    def truth(source: Source, t: Sequence[float]) -> Truth:
        weights = [np.repeat(c[None], len(t), axis=0) for c in cotangent]
        return source.evaluate(at(t), weights, _ASK)

    try:
        ends, along = truth(primal, [0.0, 1.0]), truth(rule, ts)
    except NoRealMeaning:
        return None
    flat_ct = _line(cotangent, None if parts is None else parts.outputs)
    values = columns(ends.values, 2)
    change = sum(((values[1] - values[0]) * exact(flat_ct)).tolist())
    gradients = columns(along.gradients, len(ts))
    flat_step = exact(_line(step, None if parts is None else parts.leaves))
    slopes = (gradients * flat_step[None]).sum(axis=1)
    integral = sum((slopes * exact(ws)).tolist())
    gap, size = as_floats(np.array([change - integral, change], object)).tolist()
    return None if math.isnan(gap) or not math.isfinite(size) else (gap, size)
