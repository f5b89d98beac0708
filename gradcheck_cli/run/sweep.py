"""The CLI's side of `cgcheck sweep`: shares for the workers, parts kept for a resume, one map."""

from __future__ import annotations

import hashlib
import importlib.metadata
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import UserError
from gradcheck_cli.contract.report import Finding, Severity
from gradcheck_cli.contract.sweep_map import Map, Share, Stretch, Swept
from gradcheck_cli.contract.version import __version__
from gradcheck_cli.contract.worker import Doing, Event, FileFinding, Task, Unreached
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.framework_marks import PACKAGES
from gradcheck_cli.run.session import Session
from gradcheck_cli.run.tasks import needs
from gradcheck_cli.workers.crew import Crew, crew
from gradcheck_cli.workers.pool import End, WorkerEnd

_SAVE_EVERY = 2.0  # seconds

_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@dataclass(slots=True)
class Sweep:
    """One sweep of one function. `tell` hears of each part, with how many there are."""

    session: Session
    target: Target
    grid: int
    store: Path
    tell: Callable[[Swept, int], None] = lambda part, done: None
    done: dict[int, Swept] = field(default_factory=dict)
    warnings: list[Finding] = field(default_factory=list)
    _saved: float = 0.0

    def run(self, *, fresh: bool = False) -> Map:
        """The map of the function; parts that an interrupted run has done are not done again.

        A whole map is always made anew: what the file imports may have changed.
        """
        tasks = self.session.reader.tasks(self.target)
        if not tasks:
            raise UserError("there is no custom gradient in it: name a function, as FILE:function")
        task = tasks[0]
        marked = [mark for marks in task.marked.values() for mark in marks]
        if not task.functions and len(marked) != 1:
            names = ", ".join(sorted(mark.name for mark in marked)) or "its functions"
            raise UserError(f"a sweep is of one function; name one of {names}")
        file = self.store / f"{self._key(task)}.json"
        self.done = {} if fresh else _loaded(file)
        try:
            problems = self._swept(task, file)
        finally:
            self._save(file)
        if not self.done:
            raise UserError(problems[0] if problems else "its worker ended without a word")
        sweep_map = joined(list(self.done.values()), task.display)
        if not sweep_map.complete and problems:
            raise UserError(f"{problems[0]}; what is done is kept, run it again to go on")
        return sweep_map

    @property
    def kept(self) -> str:
        """How much of it is done, in words; nothing where nothing is."""
        parts = max((part.parts for part in self.done.values()), default=0)
        return f"{len(self.done)} of {parts} parts are done and kept, " if self.done else ""

    def _swept(self, task: Task, file: Path) -> list[str]:
        """Run all shares; what went wrong is returned."""
        workers = crew(self.session.settings)
        problems: list[str] = []

        def take(_: Task, event: Event | WorkerEnd) -> None:
            if isinstance(event, Swept):
                self._take(event, file)
            elif isinstance(event, Unreached):
                problems.append(event.not_covered.reason)
            elif isinstance(event, FileFinding) and event.finding.severity is Severity.WARNING:
                if event.finding not in self.warnings:  # each share has its own worker
                    self.warnings.append(event.finding)
            elif isinstance(event, FileFinding):
                problems.append(event.finding.message)

        try:
            ends = workers.run(needs(task), self._shares(task, workers), take)
        finally:
            workers.close()
        return problems + [problem for end in ends for problem in _death(end)]

    def _shares(self, task: Task, workers: Crew) -> list[Task]:
        """The task in as many shares as suit those who do it; a few floats are one."""
        small = task.dtypes[0] in ("float16", "bfloat16")
        shares = 1 if small else workers.shares
        return [
            msgspec.structs.replace(
                task, sweep=Share(number=k, of=shares, done=sorted(self.done), grid=self.grid)
            )
            for k in range(shares)
        ]

    def _take(self, part: Swept, file: Path) -> None:
        self.done[part.part] = part
        self.tell(part, len(self.done))
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self._save(file)

    def _save(self, file: Path) -> None:
        if not self.done:
            return
        self._saved = time.monotonic()
        file.parent.mkdir(parents=True, exist_ok=True)
        parts = [self.done[k] for k in sorted(self.done)]
        unfinished = file.with_suffix(".part")
        unfinished.write_bytes(msgspec.json.encode(parts))
        unfinished.replace(file)

    def _key(self, task: Task) -> str:
        """What the map depends on."""
        versions = [f"{name} {_version(name)}" for name in (*PACKAGES, "numpy")]
        source = Path(task.path).read_bytes() if task.path else b""
        about = msgspec.json.encode(msgspec.structs.replace(task, max_time=None, cache=None))
        text = b"\n".join((__version__.encode(), *(v.encode() for v in versions), source, about))
        return hashlib.sha256(text + str(self.grid).encode()).hexdigest()[:24]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "-"


def _loaded(file: Path) -> dict[int, Swept]:
    """Parts of a run that was not finished; a file that is none of ours counts as none."""
    try:
        parts = msgspec.json.decode(file.read_bytes(), type=list[Swept])
    except (OSError, msgspec.MsgspecError):
        return {}
    whole = bool(parts) and len(parts) == parts[0].parts
    return {} if whole else {part.part: part for part in parts}


def _death(end: WorkerEnd) -> list[str]:
    if end.end is End.FINISHED:
        return []
    doing = end.doing.text if isinstance(end.doing, Doing) else "at work"
    return [f"its worker {end.end.value.replace('-', ' ')} while {doing}"]


# -- one map ----------------------------------------------------------------------------------


def joined(parts: Sequence[Swept], display: str) -> Map:
    """Parts in order; neighbouring stretches of one fate become one."""
    parts = sorted(parts, key=lambda part: part.part)
    first = parts[0]
    several = len(first.arguments) > 1
    one = int(format_of(first.dtype).ordinals(1.0))
    gap = 1 << (_DIGITS[first.dtype] - 4)
    stretches: list[Stretch] = []
    latest: dict[tuple[int, str], int] = {}
    for stretch in (s for part in parts for s in part.stretches):
        key = (stretch.result, stretch.kind)
        old = latest.get(key)
        if old is not None and (several or stretch.first[0] - stretches[old].last[0] <= gap):
            stretches[old] = _both(stretches[old], stretch, one)
        else:
            latest[key] = len(stretches)
            stretches.append(stretch)
    return Map(
        gradient=first.gradient, path=display, line=first.line, dtype=first.dtype,
        arguments=first.arguments, results=first.results, evidence=first.evidence,
        floats=sum(part.floats for part in parts), complete=len(parts) == first.parts,
        stretches=sorted(stretches, key=lambda s: (s.result, s.first)),
        levels=[[v for part in parts for v in part.levels[k]] for k in range(len(first.results))],
    )  # fmt: skip


def _both(a: Stretch, b: Stretch, one: int) -> Stretch:
    """Two of one fate, with the worst point of both; where none is worse than the other, with that nearer to ones."""
    by_bits = b.bits is not None and (a.bits is None or b.bits < a.bits)
    plainer = a.bits is None and b.bits is None and _distance(b, one) < _distance(a, one)
    worse = b if by_bits or plainer else a
    return Stretch(
        result=a.result, kind=a.kind, first=_each(min, a.first, b.first),
        last=_each(max, a.last, b.last), count=a.count + b.count,
        within=a.within or b.within, bits=worse.bits, at=worse.at,
    )  # fmt: skip


def _distance(stretch: Stretch, one: int) -> int:
    """How many floats lie between the numbers of its point and ones of their signs; a stretch without a point is far."""
    return sum(abs(abs(ordinal) - one) for ordinal in stretch.at) if stretch.at else 1 << 64


def _each(choose: Callable[[Iterable[int]], int], a: list[int], b: list[int]) -> list[int]:
    return [choose(pair) for pair in zip(a, b, strict=True)]
