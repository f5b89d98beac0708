"""A search beyond the lattice, for signatures at which it showed no error."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.check.points import probes_of_laws
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.trial import measured
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.measure.grown_gap import grown
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.search import searched


def grown_gap(request: Request, m: Measurements) -> Measurements | None:
    """Measurements where a gap is large that is small at the points tried, if there is such a place."""
    points = grown(m, request.task.reach)
    if points is None:
        return None
    request.progress.doing(Phase.SEARCHING, f"at {m.subject.signature.describe()}")
    probes = probes_of_laws(len(points), m.subject.outputs)
    return measured(request, m.subject, points, probes, m.sources)


def hidden_error(request: Request, m: Measurements) -> Measurements | None:
    """Measurements at the simplest point with a grave error that hypothesis comes upon, if it does."""
    task = request.task
    if not task.search or m.dear:
        return None
    request.progress.doing(Phase.SEARCHING, f"at {m.subject.signature.describe()}")
    point = searched(m, task.search, task.reach)
    if point is None:
        return None
    points = Points([np.asarray(p)[None] for p in point], ["found by searching"])
    probes = probes_of_laws(1, m.subject.outputs)
    return measured(request, m.subject, points, probes, m.sources)
