"""A trial of one subject where it lives: within another domain, or with other tables, if it has no value at most points."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.check.request import Request
from gradcheck_cli.check.trial import SubjectTrial, tried_once
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.infer.domains import at_home
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, REGULAR
from gradcheck_cli.subject.protocol import Subject


def tried_at_home(request: Request, subject: Subject) -> SubjectTrial:
    """A trial of the subject, or of it within a domain if it has no value at most of the points."""
    first = tried_once(request, subject)
    m = first.measurements
    if m.in_part:
        return first
    request.progress.doing(Phase.RUNNING, f"at {subject.signature.describe()}")
    rows = m.base_rows
    values = [v[rows] for v in m.floats[m.mode].value]
    # `where(live, f, 1 / 0)` is a number in floats, and none over the reals.
    outside = np.asarray(np.isin(m.reference.states(VALUES)[rows], (OUTSIDE, POLE)).any(axis=1))
    points = [p[rows] for p in m.points]
    home = at_home(request.gradient, m.subject, points, values, m.fmt, outside, _too_far(m)[rows])
    return first if home is m.subject else tried_once(request, home)


def _too_far(m: Measurements) -> Array:
    """Rows in which the reals have no value that a float holds, or none that could be found."""
    states, sizes = m.reference.states(VALUES), np.abs(m.reference.middle(VALUES))
    held = np.isin(states, (REGULAR, LIMIT, KINK)) & (sizes <= m.fmt.max)
    return np.asarray(~held.all(axis=1))
