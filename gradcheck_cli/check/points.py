"""The points at which a subject is tried, and what the laws ask for at each."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.adequacy.turning_points import turning_points
from gradcheck_cli.contract.worker import Task
from gradcheck_cli.infer.first_points import asked_first, recorded_first
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import Points, beyond_reach, make_points
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.measure.measurements import Probe
from gradcheck_cli.measure.mined_constants import mined
from gradcheck_cli.measure.sampled_subject import affordable_points, steps
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.subject.protocol import Shaped, Subject

_FEW_POINTS = 48  # where each costs dozens of calls
_ARRAY_SHARE = 4  # array signatures get this fraction of the points
_STEPS = 30_000  # of flint for one cotangent at all points: a second or two for all that is asked
_FEWEST_POINTS = 12
_PROGRAMS = 300  # of kernels that are interpreted one by one, at all points, for one cotangent


def points_of(subject: Subject, task: Task, rungs: Sources) -> Points:
    """Points within reach: the user's own, the recorded ones, then the lattice."""
    fmt, traces = format_of(subject.dtype), subject.traces()
    programs = [p for p in (traces.primal, traces.rule) if p is not None]
    constants = mined(programs)
    budget = _budget(subject, task, rungs)
    points = make_points(subject.leaves, fmt, constants, task.reach, budget, task.seed)
    if not rungs.primal.dear:
        beside = turning_points(programs, subject.leaves, subject.outputs, points, fmt, task.reach)
        points = points.followed_by(beside.in_order(subject.leaves, fmt))
    points = recorded_first(subject.leaves, fmt, points)
    return asked_first(task.at, subject.leaves, fmt, points)


def beyond(subject: Shaped, points: Points, task: Task) -> tuple[Points, list[Probe]]:
    """The points with those beyond reach after them, and all that is asked for at each."""
    outer = beyond_reach(subject.leaves, format_of(subject.dtype), task.reach)
    probes = probes_of_laws(len(points), subject.outputs)
    probes += [Probe(len(points) + i, BASE) for i in range(len(outer))]
    return points.followed_by(outer), probes


def probes_of_laws(count: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
    """What all laws ask for at so many points."""
    return [probe for law in LAWS for probe in law.plan(count, outputs)]


def _budget(subject: Subject, task: Task, rungs: Sources) -> int:
    """How many points are worth their cost."""
    scalar = all(not leaf.shape for leaf in subject.leaves)
    budget = task.points if scalar else max(16, task.points // _ARRAY_SHARE)
    if rungs.primal.dear:
        budget = min(budget, _FEW_POINTS)
    programs, few = sum(kernel.programs for kernel in subject.kernels), _STEPS // steps(subject)
    if programs:
        few = min(few, _PROGRAMS // programs)
    return min(affordable_points(subject, budget), max(_FEWEST_POINTS, few))
