"""Rows measured again with other numbers: is a fault there, too?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.measure.engine import measure_rows
from gradcheck_cli.measure.measurements import Measurements, Probe, Rows

Array = np.ndarray[Any, Any]


def moved_to(m: Measurements, rows: Sequence[int], points: Sequence[Array]) -> Measurements:
    """These rows at other points, one a row, with the cotangents that they have."""
    cotangents = [c[rows] for c in m.cotangents]
    probes = [Probe(k, m.probes[row].cotangent) for k, row in enumerate(rows)]
    moved = Rows(m.subject, m.fmt, m.seed, probes, list(points), cotangents, ["moved"] * len(rows))
    return measure_rows(moved, m.sources, kinks=False, ties=False)
