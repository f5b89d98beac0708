"""Which kernels a call launches, how they cut their arrays, and what of these they read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.subject.results import Cut, Kernel

BEYOND = "IndexError: the kernel "  # how it is told that one leaves an array
_MOST_TRIED = 16  # programs of one launch: the first and the last ones meet the ends of the arrays
Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Launches:
    """What was seen of the launches of a call."""

    each: dict[Kernel, None] = field(default_factory=dict)
    some: bool = False  # of many programs the first and the last ones are enough
    left_out: bool = False  # there were others
    # By the address of a storage, place by place.
    read: dict[int, Array] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(self.each)

    def unread(self, tensor: Any) -> int:
        """How many elements at the end of a tensor no kernel has read that was given it; 0 also where none was.

        Gaps between what is read may be read by others: half of each row, turned by a kernel.
        """
        read = self.read.get(tensor.untyped_storage().data_ptr())
        if read is None or not read.any():
            return 0
        left = int((~read).sum())
        return left if not read[read.size - left :].any() else 0


_WATCHING: list[Launches] = []


@contextmanager
def launched(*, some: bool = False) -> Iterator[Launches]:
    """While active, what is launched is noted; `some`: of many programs the first and the last ones run."""
    seen = Launches(some=some)
    _WATCHING.append(seen)
    try:
        yield seen
    finally:
        _WATCHING.remove(seen)


def note(constants: Mapping[str, Any], shapes: Sequence[Sequence[int]], programs: int) -> None:
    """A kernel was launched on arrays of these shapes: what is constant in its text and no flag may be a block.

    A block of which several make up a whole array already, whatever its axes, cuts no axis; one for each row does.
    """
    flat = {math.prod(shape) for shape in shapes if programs not in (1, math.prod(shape[:-1]))}
    blocks = {
        value
        for value in constants.values()
        if type(value) is int
        and value > 1
        and programs not in {-(-numel // value) for numel in flat}
    }
    sizes = dict.fromkeys(size for shape in shapes for size in shape)
    cuts = tuple(Cut(size, block) for block in sorted(blocks) for size in sizes)
    kernel = Kernel(cuts, programs)
    for seen in _WATCHING:
        seen.each.setdefault(kernel)


def needless(programs: int) -> range | None:
    """Programs that need not run, where nobody asks for more than whether the call is taken."""
    asked = [seen for seen in _WATCHING if seen.some]
    if programs <= _MOST_TRIED or len(asked) < len(_WATCHING) or not asked:
        return None
    for seen in asked:
        seen.left_out = True
    return range(_MOST_TRIED // 2, programs - _MOST_TRIED // 2)


def places_read(storage: int, size: int) -> Array | None:
    """The places of a storage, to be marked by who reads them; None where nobody asks."""
    if not _WATCHING:
        return None
    marks = _WATCHING[-1].read.setdefault(storage, np.zeros(size, bool))
    return marks if marks.size == size else None
