"""Probes to measurements: few compiled calls, one walk for each program, everything in rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.casts import as_if_in, narrowest
from gradcheck_cli.measure.iterations import admit_limits
from gradcheck_cli.measure.measurements import Measurements, Probe, Rows
from gradcheck_cli.measure.reference import Reference, goal_bits
from gradcheck_cli.measure.run_out import leave_run_out
from gradcheck_cli.measure.shared_states import (
    leave_open,
    leave_out_refused,
    share_domain,
    share_poles,
)
from gradcheck_cli.measure.sources import Sources, sources
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]


def measure(
    subject: Subject,
    points: Points,
    probes: Sequence[Probe],
    rungs: Sources,
    *,
    seed: int,
    ran: Callable[[], None] = lambda: None,
) -> Measurements:
    """Run and walk all probes of all laws at once, on the strongest rung that holds for all of them."""
    rows = Rows.of(subject, points, probes, seed)
    floats = subject.run(rows.points, rows.cotangents)
    ran()  # what is slow or dies from here on is ours, not the user's
    try:
        return measure_rows(rows, rungs, floats=floats)
    except NoRealMeaning:
        return measure_rows(rows, sources(subject, certified=False), floats=floats)


def measure_rows(
    rows: Rows,
    rungs: Sources,
    *,
    kinks: bool = True,
    ties: bool = True,
    floats: Mapping[str, Floats] | None = None,
) -> Measurements:
    """Floats (unless they are there already) and truth at all rows; without `kinks` nothing is nudged."""
    points, cotangents, fmt = rows.points, rows.cotangents, rows.fmt
    floats = floats or rows.subject.run(points, cotangents)
    goal = goal_bits(fmt)
    truth = rungs.primal.evaluate(points, cotangents, Ask(goal, ties, kinks, rows.at_base))
    rule = None
    if rungs.rule is not None:
        rule = rungs.rule.evaluate(points, cotangents, Ask(goal, False, kinks, rows.at_base))
    for source in filter(None, (truth, rule)):
        share_poles(source, rows.probes, fmt)
    leave_out_refused(truth, floats.values())
    if not rungs.primal.over_reals:
        leave_open(truth, rule, next(iter(floats.values())).value)
    endless: tuple[int, ...] = ()
    run_out: tuple[int, ...] = ()
    if rule is not None:
        values = next(iter(floats.values())).value
        seeks, endless = admit_limits(rungs.seeks, rows, values, truth, rule)
        rungs = replace(rungs, seeks=seeks)
        run_out = leave_run_out(rungs.primal, rows, truth, rule)
        share_domain(truth, rule)
    primal = rows.subject.traces().primal
    narrow = None if primal is None else narrowest(primal, fmt)
    judged_in = fmt if narrow is None else as_if_in(fmt, narrow)
    reference = Reference(rungs.primal, judged_in, points, cotangents, truth, rows.seed)
    spread = [p[~rows.beyond] for p in points]
    return Measurements(
        rows.subject, fmt, rows.seed, rows.probes, points, cotangents, rows.recipes,
        floats, reference, rungs, rule, spread, endless, run_out,
    )  # fmt: skip


def moved(m: Measurements, row: int, point: Sequence[Array]) -> Measurements:
    """One probe with other inputs and the same cotangent."""
    points = [np.asarray(p, np.float64)[None] for p in point]
    cotangents = [c[row : row + 1] for c in m.cotangents]
    probe = Probe(0, m.probes[row].cotangent)
    rows = Rows(m.subject, m.fmt, m.seed, [probe], points, cotangents, ["shrunk"])
    return replace(measure_rows(rows, m.sources, kinks=False), spread=m.spread)


def line(m: Measurements, row: int, leaf: int, element: int, values: Array) -> Measurements:
    """The probe of a row with one component of one argument moved through values."""
    count = len(values)
    points = [np.repeat(p[row][None], count, axis=0) for p in m.points]
    flat = points[leaf].reshape(count, -1)
    flat[:, element] = values
    points[leaf] = flat.reshape(points[leaf].shape)
    cotangents = [np.repeat(c[row][None], count, axis=0) for c in m.cotangents]
    probes = [Probe(i, m.probes[row].cotangent) for i in range(count)]
    rows = Rows(m.subject, m.fmt, m.seed, probes, points, cotangents, ["line"] * count)
    return measure_rows(rows, m.sources, kinks=False, ties=False)
