"""A trial of one subject: traced, run at its points, and measured beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.check.points import beyond, points_of
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.judge.witness import call_inputs
from gradcheck_cli.measure.engine import measure
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.sampled_subject import Part, components, part_of, too_large
from gradcheck_cli.measure.sources import Sources, sources
from gradcheck_cli.measure.untrue_trace import misshapen, untrue_primal, untrue_rule
from gradcheck_cli.subject.protocol import Subject

# Why programs over the reals are not believed.
_OTHER_SHAPES = "its trace gives results of other shapes than the call"
_UNTRUE_PRIMAL = "its trace gives other values than the call"
_UNTRUE_RULE = "the trace of its backward gives other gradients than the call"


@dataclass(frozen=True, slots=True)
class SubjectTrial:
    """A subject at its points; `left_out` says which of its components are not judged, and why."""

    points: Points
    measurements: Measurements
    left_out: tuple[tuple[str, str], ...] = ()


def measured(
    request: Request, subject: Subject, points: Points, probes: Sequence[Probe], rungs: Sources
) -> Measurements:
    """Floats and truth at these points; it is announced when the user's code has run."""
    where = subject.signature.describe()

    def ran() -> None:
        request.progress.doing(Phase.COMPARING, f"at {where}")

    return measure(subject, points, probes, rungs, seed=request.task.seed, ran=ran)


def tried_once(request: Request, subject: Subject) -> SubjectTrial:
    """Traced, run and walked at all points of all laws."""
    task, progress = request.task, request.progress
    where = subject.signature.describe()
    progress.doing(Phase.TRACING, f"at {where}")
    for primal in (True, False):
        if misshapen(subject, primal=primal):
            subject.distrust(_OTHER_SHAPES, primal=primal)
    rungs = sources(subject)
    points = points_of(subject, task, rungs)
    progress.doing(Phase.RUNNING, f"at {where}")
    points, probes = beyond(subject, points, task)
    if task.alone is not None:
        _one_by_one(request, subject, points)
    if not too_large(subject, len(probes)):
        m = measured(request, subject, points, probes, rungs)
        primal = untrue_primal(m)
        if primal or untrue_rule(m):
            subject.distrust(_UNTRUE_PRIMAL if primal else _UNTRUE_RULE, primal=primal)
            m = measured(request, subject, points, probes, sources(subject))
        return SubjectTrial(points, m)
    part, left_out = _in_part(subject, points, task.seed)
    m = measured(request, part, points, probes, sources(part))
    return SubjectTrial(points, m, left_out)


def _in_part(
    subject: Subject, points: Points, seed: int
) -> tuple[Part, tuple[tuple[str, str], ...]]:
    """What is judged of a subject that is too large to be judged whole, and what is not."""
    part, how = part_of(subject, points.leaves, seed)
    count = components(subject)
    left = count - part.sample.size
    what = f"{left:,} of {count:,} components at {subject.signature.describe()}"
    return part, ((what, f"too large to judge whole: {how} were judged"),) if left else ()


def _one_by_one(request: Request, subject: Subject, points: Points) -> None:
    """Run each point in a call of its own, and say which before it: one of them kills."""
    ones = [np.ones((1, *shape)) for shape in subject.outputs]
    where = f"at {subject.signature.describe()}"
    for i in range(len(points)):
        rows = [leaf[i : i + 1] for leaf in points.leaves]
        request.progress.doing(Phase.RUNNING, where, call_inputs(subject, rows))
        subject.run(rows, ones)
