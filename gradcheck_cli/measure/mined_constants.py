"""Constants that the primal or the rule compares against or adds: faults live at both sides of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradcheck_cli.reals.program import Program

_MOST = 24


def mined(programs: Iterable[Program]) -> list[float]:
    """Scalar float constants of the programs, simplest first."""
    constants: set[float] = set()
    for program in programs:
        for value in program.all_constants():
            kind = getattr(getattr(value, "dtype", np.dtype(float)), "kind", "a key")
            if kind not in "fiu" or np.size(value) != 1:
                continue
            number = float(np.asarray(value).reshape(()))
            if np.isfinite(number) and number not in (0.0, 1.0, -1.0):
                constants.add(number)
    return sorted(constants, key=lambda v: (len(repr(v)), abs(v), v))[:_MOST]
