"""Forward calls of a rule, made once and pulled back for each change of its backward."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np

from gradcheck_cli.judge.source.rewritten import anything_rewritten, stands_as_written
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.results import Pullback

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Call:
    """What pulls back, and the code that ran before: if another stands for it now, the call says nothing."""

    pullback: Pullback
    ran: frozenset[CodeType]


@dataclass(slots=True)
class ForwardCalls:
    """The calls at the rows of one signature, where the framework can pull one back again."""

    m: Measurements
    _made: dict[int, _Call] = field(default_factory=dict)

    def gradients(self, row: int) -> list[Array]:
        """The rule's gradients at a row, as its text stands now."""
        cotangent = [c[row] for c in self.m.cotangents]
        known = self._made.get(row)
        if known is not None and stands_as_written(known.ran):
            return known.pullback(cotangent)
        point = [p[row] for p in self.m.points]
        if anything_rewritten():
            return self.m.subject.rule_gradients_unbatched(point, cotangent)
        with _watched() as ran:
            pullback = self.m.subject.rule_pullback(point)
        if pullback is None:
            return self.m.subject.rule_gradients_unbatched(point, cotangent)
        self._made[row] = _Call(pullback, frozenset(ran))
        return pullback(cotangent)


@contextmanager
def _watched() -> Iterator[set[CodeType]]:
    """The code of all functions that are called meanwhile, in this thread."""
    ran: set[CodeType] = set()

    def saw(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            ran.add(frame.f_code)

    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(saw)
    try:
        yield ran
    finally:
        sys.setprofile(before)
