"""Some floats in order, what the subject gives there, and what is found out about each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.classes import UNDECIDED
from gradcheck_cli.inputs.floats import Format

Array = np.ndarray[Any, Any]

CHUNK = 1 << 21  # floats that blocks are judged of


@dataclass(slots=True)
class Chunk:
    """Some floats in order, what the subject gives there, and the codes that are found for it."""

    fmt: Format
    xs: Array  # native
    got: list[Array]  # native, one for each result
    codes: list[Array] = field(default_factory=list)
    bits: list[Array | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.codes = [np.full(len(self.xs), UNDECIDED, np.uint8) for _ in self.got]
        self.bits = [None for _ in self.got]

    def digits(self, result: int) -> Array:
        """Correct bits, where they are counted."""
        known = self.bits[result]
        if known is None:
            known = self.bits[result] = np.full(len(self.xs), self.fmt.digits, np.float32)
        return known

    def open(self) -> Array:
        """Positions at which some result is undecided."""
        return np.flatnonzero(np.any([c == UNDECIDED for c in self.codes], axis=0))
