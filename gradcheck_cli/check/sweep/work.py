"""The worker's side of a sweep: every float of one argument, or a grid of several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from gradcheck_cli.check.sweep import grid, points
from gradcheck_cli.check.sweep.blocks import judge_blocks
from gradcheck_cli.check.sweep.chunk import Chunk
from gradcheck_cli.check.sweep.classes import FINE, OUTSIDE, SUBNORMAL, UNDECIDED
from gradcheck_cli.check.sweep.jets import Jet, jet_of
from gradcheck_cli.check.sweep.stretches import levels, stretches
from gradcheck_cli.check.user_says import user_says
from gradcheck_cli.contract.report import Evidence, NotCovered
from gradcheck_cli.contract.sweep_map import Swept
from gradcheck_cli.contract.worker import Event, FileFinding, Task, Unreached
from gradcheck_cli.infer.probing import probe
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.measure.sources import Sources, sources
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.protocol import CustomGradient, Framework, Shaped, Subject, Traced
from gradcheck_cli.subject.user_code import UserCodeError

Array = np.ndarray[Any, Any]

_CHUNK = 1 << 21
_SMALL_CHUNK = 1 << 12
_CELLS = 64  # of the picture
_FEWEST = 1 << 8  # open floats of which single pairs are asked; ranges of blocks come after


@dataclass(frozen=True, slots=True)
class Line:
    """One subject along its one argument."""

    subject: Subject
    rungs: Sources
    jet: Jet | None  # none: it has no program of numbers alone
    fmt: Format
    seed: int

    @property
    def weights(self) -> list[float]:
        return [float(c) for c in cotangent(BASE, self.subject.outputs)]


def sweep(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    emit: Callable[[Event], None],
) -> None:
    """All parts of this worker's share, each told as soon as it is done."""
    assert task.sweep is not None
    statement = user_says(framework.hints(gradient), gradient, task, site)
    for finding in statement.findings:
        emit(FileFinding(finding=finding))
    subject, why = _scalar(gradient, task.dtypes[0], statement.hints)
    if subject is None:
        emit(Unreached(not_covered=_not_swept(gradient, why)))
        return
    fmt = format_of(subject.dtype)
    told = Swept(
        gradient=gradient.place.qualname, line=site.line, dtype=subject.dtype,
        arguments=[leaf.path for leaf in subject.leaves], results=_results(subject),
        part=0, parts=0, floats=0, evidence=Evidence.CERTIFIED, stretches=[], levels=[],
    )  # fmt: skip
    rungs = sources(subject)
    told = replace(told, evidence=rungs.evidence)
    whole = len(subject.leaves) == 1 and fmt.name != "float64"
    parts = _every_float(subject, rungs, fmt, task, told) if whole else grid.parts(subject, rungs, fmt, task, told)  # fmt: skip
    for part in parts:
        emit(part)


def _scalar(gradient: CustomGradient, dtype: str, hints: Hints) -> tuple[Subject | None, str]:
    """The gradient at plain numbers, which is what can be swept; or why there is none."""
    probed = probe(gradient, dtype, hints)
    for subject in probed.subjects:
        numbers = all(not leaf.shape for leaf in subject.leaves)
        if numbers and all(shape == () for shape in subject.outputs):
            return subject, ""
    if probed.broken is not None:
        return None, probed.broken[1].message
    return (
        None,
        probed.reason or "it takes arrays only; a sweep needs an argument that is one number",
    )


def _results(subject: Shaped) -> list[str]:
    count = len(subject.outputs)
    values = ["value"] if count == 1 else [f"value[{k}]" for k in range(count)]
    if len(subject.leaves) == 1:
        return [*values, "gradient"]
    return [*values, *(f"gradient of {leaf.path}" for leaf in subject.leaves)]


def _not_swept(gradient: CustomGradient, why: str) -> NotCovered:
    add = "declare its arguments as numbers: `# cgcheck: x=f32[]`"
    return NotCovered.whole(gradient.place.qualname, why, add)


# -- every float ------------------------------------------------------------------------------


def _every_float(
    subject: Subject, rungs: Sources, fmt: Format, task: Task, told: Swept
) -> Iterator[Swept]:
    share = task.sweep
    assert share is not None
    line = Line(subject, rungs, _jet(subject), fmt, task.seed)
    all_ = _chunks(fmt)
    for number, (first, count, negative) in enumerate(all_):
        if number % share.of != share.number or number in share.done:
            continue
        chunk = _judged(line, _floats(fmt, first, count, negative))
        cut = -(-_CELLS // len(all_))
        results = range(len(chunk.got))
        yield replace(
            told, part=number, parts=len(all_), floats=count,
            stretches=[s for k in results for s in stretches(chunk, k, task.reach)],
            levels=[levels(chunk, k, cut) for k in results],
        )  # fmt: skip


def _jet(subject: Traced) -> Jet | None:
    """None where single points have to do."""
    program = subject.traces().primal
    if program is None:
        return None
    weights = [float(c) for c in cotangent(BASE, subject.outputs)]
    try:
        return jet_of(program, weights, subject.dtype)
    except (NoRealMeaning, UserCodeError):  # it cannot be differentiated thrice
        return None


def _chunks(fmt: Format) -> list[tuple[int, int, bool]]:
    """(first size, how many, negative?), in ascending order of the floats."""
    total = int(fmt.ordinals(fmt.max)) + 1
    step = _CHUNK if fmt.name == "float32" else _SMALL_CHUNK
    firsts = range(0, total, step)
    sizes = [(first, min(step, total - first)) for first in firsts]
    below = [(first, count, True) for first, count in reversed(sizes)]
    return below + [(first, count, False) for first, count in sizes]


def _floats(fmt: Format, first: int, count: int, negative: bool) -> Array:
    raw = np.arange(first, first + count, dtype=fmt.bits)
    return (raw | np.iinfo(fmt.bits).min if negative else raw).view(fmt.dtype)


def _judged(line: Line, xs: Array) -> Chunk:
    """From cheap to dear: blocks, single pairs, ranges of what is left, single walks."""
    chunk = Chunk(line.fmt, xs, line.subject.run_scalars(xs, line.weights))
    beyond = _beyond(line, xs)
    _mark(chunk, beyond)
    jet = line.jet
    if jet is not None:
        with contextlib.suppress(NoRealMeaning):  # float64 pairs may lack one of its primitives
            _by_jet(line, jet, chunk)
    left = chunk.open()
    if len(left):
        wide = chunk.xs[left].astype(np.float64)
        found = points.by_walks(line.subject, line.rungs, line.fmt, [wide], line.seed)
        _write(chunk, left, *found)
    _forgive_subnormal(chunk)
    _mark(chunk, beyond)  # blocks do not ask for the declared domain
    nowhere = np.all([codes == OUTSIDE for codes in chunk.codes[:-1]], axis=0)
    chunk.codes[-1][nowhere] = OUTSIDE  # where there is no value, there is no gradient
    return chunk


def _by_jet(line: Line, jet: Jet, chunk: Chunk) -> None:
    large = len(chunk.xs) == _CHUNK
    if large:
        judge_blocks(jet, chunk)
        _forgive_subnormal(chunk)
    left = chunk.open()
    if len(left):
        got = [g[left] for g in chunk.got]
        _write(chunk, left, *points.by_pairs(jet, line.fmt, chunk.xs[left].astype(np.float64), got))
    if not large and len(chunk.open()) > _FEWEST:
        points.by_ranges(jet, chunk)


def _forgive_subnormal(chunk: Chunk) -> None:
    """Numbers below the smallest normal may act as 0: what is not fine there is not judged."""
    sizes = np.abs(chunk.xs.astype(np.float32))
    if sizes.min() < chunk.fmt.tiny:
        small = (sizes < chunk.fmt.tiny) & (sizes > 0)
        for codes in chunk.codes:
            codes[small & (codes != FINE) & (codes != OUTSIDE)] = SUBNORMAL


def _beyond(line: Line, xs: Array) -> Array:
    """Where the argument is declared not to be."""
    domain = line.subject.leaves[0].domain
    if domain is None:
        return np.zeros(0, int)
    wide = xs.astype(np.float64)
    return np.flatnonzero(domain.into(wide, line.fmt) != wide)


def _mark(chunk: Chunk, beyond: Array) -> None:
    for codes in chunk.codes:
        codes[beyond] = OUTSIDE


def _write(chunk: Chunk, places: Array, codes: list[Array], bits: list[Array]) -> None:
    """What was undecided only."""
    for k, (new, digits) in enumerate(zip(codes, bits, strict=True)):
        open_ = chunk.codes[k][places] == UNDECIDED
        chunk.codes[k][places[open_]] = new[open_]
        chunk.digits(k)[places[open_]] = digits[open_]
