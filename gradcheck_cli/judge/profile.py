"""Correct bits over one argument: the numbers behind the one-line plot of a report."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.contract.report import Profile
from gradcheck_cli.judge.witness import as_number
from gradcheck_cli.measure.components import VALUES, columns
from gradcheck_cli.measure.correct_bits import correct_bits
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.project.rule_pages import find


def profile_of(failure: Failure, m: Measurements) -> Profile | None:
    """Correct bits over the only argument, if that is one number and floats are what failed."""
    leaves = m.subject.leaves
    one_number = len(leaves) == 1 and not leaves[0].shape and not failure.component
    if not find(failure.rule).about_floats or not one_number:
        return None
    floats = m.floats[failure.modes[0] if failure.modes else m.mode]
    arrays = floats.rule_value if failure.what == VALUES else (floats.custom or floats.auto or [])
    rows = m.base_rows
    rows = rows[np.argsort(m.points[0][rows], kind="stable")]
    rows = rows[np.isin(m.reference.states(failure.what)[rows, 0], (REGULAR, LIMIT))]
    truth = m.reference.middle(failure.what)[rows, 0]
    bits = correct_bits(columns(arrays, m.count)[rows, 0], truth, m.fmt)
    flushed = (np.abs(truth) < m.fmt.tiny) | (np.abs(truth) > m.fmt.max)
    bits = np.where(flushed, float(m.fmt.digits), bits)
    return Profile(
        argument=leaves[0].path,
        at=[as_number(float(v), m.fmt) for v in m.points[0][rows]],
        bits=[round(float(b), 1) for b in bits],
        full=float(m.fmt.digits),
    )
