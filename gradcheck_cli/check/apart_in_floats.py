"""Are a rule and autodiff plainly apart in floats? A look that costs a few calls, where judging costs minutes."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.check.request import Request
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import make_points
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.measurements import Probe, Rows
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_POINTS = 8
_PLAIN = 1 / 16  # of the row's largest component: no rounding does that at most points


def apart_in_floats(request: Request, subject: Subject) -> bool:
    """Do both give numbers at several points, and quite other ones at most of these, for what the rule differentiates?"""
    task = request.task
    points = make_points(
        subject.leaves, format_of(subject.dtype), (), task.reach, _POINTS, task.seed
    )
    probes = [Probe(i, BASE) for i in range(len(points))]
    rows = Rows.of(subject, points, probes, task.seed)
    try:
        floats = next(iter(subject.run(rows.points, rows.cotangents, subject.modes[:1]).values()))
    except (Rejected, RuleError, UserCodeError):
        return False
    if floats.custom is None or floats.auto is None:
        return False
    # Of an argument that gets nothing, nothing is said.
    given = [i for i, gradient in enumerate(floats.custom) if gradient.any()]
    ours, theirs = (
        columns([each[i] for i in given], rows.count) for each in (floats.custom, floats.auto)
    )
    told = np.isfinite(ours).all(axis=1) & np.isfinite(theirs).all(axis=1)
    largest = np.maximum(np.abs(ours), np.abs(theirs)).max(axis=1, initial=0.0)
    with np.errstate(invalid="ignore"):
        apart = told & (np.abs(ours - theirs).max(axis=1, initial=0.0) > _PLAIN * largest)
    return bool(told.sum() > 1 and 2 * apart.sum() > told.sum())
