"""Rows at which the lower bound of a clip of the function does not lie below its upper one: nobody means these."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.components import VALUES, as_floats
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.reals.clips import Clips, clips
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import Program


def crossed(m: Measurements, rows: Array) -> Array:
    """Which of these rows are such; none where all rows are, for then the function is written so."""
    return _crossed(m)[rows] & ~_crossed(m)[m.base_rows].all()


@derived
def _crossed(m: Measurements) -> Array:
    program = m.subject.traces().primal
    if program is None or m.in_part or m.dear:
        return np.zeros(m.count, bool)
    found = clips(program, len(m.components(VALUES)))
    return np.zeros(m.count, bool) if found is None else _of(found, program, m)


def _of(found: Clips, program: Program, m: Measurements) -> Array:
    outs = enclose(found.computed, [*m.points, *m.cotangents], goal=m.reference.goal).outs
    numbers = {
        slot: as_floats(out).reshape(m.count, -1)
        for slot, out in zip(found.computed.outputs, outs, strict=True)
    }
    rows = np.zeros(m.count, bool)
    for pair in found.pairs:
        low, high = (
            numbers[slot]
            if slot in numbers
            else np.asarray(program.constants[slot], float).reshape(1, -1)
            for slot in pair
        )
        if 1 in (low.shape[1], high.shape[1]) or low.shape[1] == high.shape[1]:
            rows |= (low >= high).any(axis=1)
    return rows
