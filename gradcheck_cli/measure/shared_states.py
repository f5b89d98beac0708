"""States that one truth lends another: of the same row, or of the same point at other cotangents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import QUITE_ANOTHER
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.ball_truth import Truth
from gradcheck_cli.measure.components import as_floats, columns
from gradcheck_cli.measure.measurements import Probe
from gradcheck_cli.measure.states import KINK, OUTSIDE, POLE, UNDECIDED
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]


def leave_out_refused(truth: Truth, runs: Iterable[Floats]) -> None:
    """Rows at which the function raised are outside its domain."""
    for run in runs:
        if run.refused is not None:
            for state in (*truth.value_states, *truth.gradient_states):
                state[run.refused] = OUTSIDE


def leave_open(truth: Truth, rule: Truth | None, values: Sequence[Array]) -> None:
    """Rows whose value in wider floats is quite another number are left open.

    An iteration that does not converge, say: such a point is none that the function is for. It has
    no derivative there that differences agree on, either.
    """
    count = len(values[0])
    wide, got = as_floats(columns(truth.values, count)), columns(values, count)
    with np.errstate(invalid="ignore"):
        apart = np.abs(wide - got) > QUITE_ANOTHER.value * np.maximum(np.abs(wide), np.abs(got))
    lost = (apart & np.isfinite(wide) & np.isfinite(got)).any(axis=1)
    unsettled = np.isin(columns(truth.gradient_states, count), (KINK, UNDECIDED)).any(axis=1)
    lost |= unsettled & ~np.isfinite(got).all(axis=1)
    lost |= (columns(truth.value_states, count) == UNDECIDED).any(axis=1)
    for source in filter(None, (truth, rule)):  # a rule there is that of no value
        for state in (*source.value_states, *source.gradient_states):
            state[lost] = UNDECIDED


def share_domain(truth: Truth, rule: Truth) -> None:
    """The rule is not judged outside the domain of the primal."""
    pairs = zip(
        (*truth.value_states, *truth.gradient_states),
        (*rule.value_states, *rule.gradient_states),
        strict=True,
    )
    for ours, theirs in pairs:
        theirs[ours == OUTSIDE] = OUTSIDE


def share_poles(truth: Truth, probes: Sequence[Probe], fmt: Format) -> None:
    """A pole or an overflow of the gradient is one for every cotangent: 0·inf is no fault there."""
    places: dict[int, list[int]] = {}
    for row, probe in enumerate(probes):
        places.setdefault(probe.point, []).append(row)
    for state, balls in zip(truth.gradient_states, truth.gradients, strict=True):
        flat = state.reshape(len(probes), -1)
        over = np.abs(as_floats(balls)).reshape(len(probes), -1) > fmt.max
        for rows in places.values():
            if len(rows) > 1:
                lost = ((flat[rows] == POLE) | over[rows]).any(axis=0)
                part = np.ix_(np.array(rows), np.flatnonzero(lost))
                flat[part] = np.where(over[part], flat[part], POLE)
