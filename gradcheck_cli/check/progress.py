"""Progress with one gradient: what is being done, for whoever watches, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.contract.report import WitnessInput
from gradcheck_cli.contract.worker import Doing, Event, Phase


@dataclass(slots=True)
class Progress:
    """An instrument: it announces phases to the parent and to the clock, and measures seconds."""

    qualname: str
    line: int
    emit: Callable[[Event], None]
    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    def doing(self, phase: Phase, detail: str = "", inputs: Sequence[WitnessInput] = ()) -> None:
        """Announce a phase before it begins: a worker that dies in it died of it."""
        self.clock.ours = phase.is_ours
        self._say(Doing(phase=phase, detail=detail, inputs=list(inputs)))

    def calling(self, call: str) -> None:
        """Announce a call with inputs that were made up: a worker that dies of it does without."""
        self._say(Doing(phase=Phase.INPUTS, call=call))

    def _say(self, doing: Doing) -> None:
        self.emit(replace(doing, gradient=self.qualname, line=self.line))

    def unhurried(self) -> None:
        """Silence the alarm until the next phase: what was found is being written down."""
        self.clock.ours = False

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Add the time that the block takes to the seconds of `what`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start
