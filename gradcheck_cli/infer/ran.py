"""Which instructions of a user's files run: the choices in them that only ever go one way are to be seen."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from gradcheck_cli.clues.arms import Arm, Span

_MOST_STEPS = 200_000  # of one call: a loop over numbers says no more


@dataclass(slots=True)
class Ran:
    """The steps from one instruction to the next that were taken, by the code that they lie in."""

    steps: dict[CodeType, set[tuple[int, int]]] = field(default_factory=dict)

    def add(self, more: Ran) -> None:
        """What ran elsewhere, too."""
        for code, steps in more.steps.items():
            self.steps.setdefault(code, set()).update(steps)

    def chose(self, arm: Arm) -> bool:
        """Was this arm of a choice taken?"""
        return any(
            arm.taken(before, here)
            for code, steps in self.steps.items()
            if code.co_filename == arm.path
            for before, here in _spans(code, frozenset(steps))
        )

    def asked(self, arm: Arm) -> bool:
        """Was the question asked whose answer would lead to this arm?"""
        return any(
            here.within(arm.test)
            for code, steps in self.steps.items()
            if code.co_filename == arm.path
            for _, here in _spans(code, frozenset(steps))
        )


@contextmanager
def watched(paths: Collection[str]) -> Iterator[Ran]:
    """While active, what runs of these files is noted; nothing is where a debugger looks on already."""
    ran = Ran()
    if sys.gettrace() is not None:
        yield ran
        return
    sys.settrace(functools.partial(_entered, ran, paths))
    try:
        yield ran
    finally:
        sys.settrace(None)


def _entered(ran: Ran, paths: Collection[str], frame: FrameType, event: str, _: object) -> Any:
    """What follows the instructions of a frame: of one of these files, else nothing does."""
    if frame.f_code.co_filename not in paths:
        return None
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    steps = ran.steps.setdefault(frame.f_code, set())
    before, count = -1, 0

    def following(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal before, count
        if event == "opcode":
            steps.add((before, frame.f_lasti))
            before, count = frame.f_lasti, count + 1
        return following if count < _MOST_STEPS else None

    return following


@functools.lru_cache(maxsize=256)
def _spans(
    code: CodeType, steps: frozenset[tuple[int, int]]
) -> tuple[tuple[Span | None, Span], ...]:
    """The steps as places in the text; nothing comes before the first."""
    places = [Span.of(position) for position in code.co_positions()]
    found = {
        (places[before // 2] if before >= 0 else None, places[here // 2]) for before, here in steps
    }
    return tuple((before, here) for before, here in found if here is not None)
