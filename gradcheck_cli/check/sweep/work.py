"""The worker's side of a sweep: every float of one argument, or a grid of several."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.check.request import Request
from gradcheck_cli.check.sweep import grid
from gradcheck_cli.check.sweep.every_float import every_float
from gradcheck_cli.check.sweep.line import line_along
from gradcheck_cli.check.sweep.scalar import not_swept, results, scalar_subject
from gradcheck_cli.check.user_says import user_says
from gradcheck_cli.contract.sweep_map import Swept
from gradcheck_cli.contract.worker import Event, FileFinding, Unreached
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.sources import sources
from gradcheck_cli.subject.protocol import Subject


def sweep(request: Request) -> Iterator[Event]:
    """All parts of this worker's share, each as soon as it is done."""
    gradient, task = request.gradient, request.task
    statement = user_says(request.framework.hints(gradient), gradient, task, request.site)
    for finding in statement.findings:
        yield FileFinding(finding=finding)
    subject, why = scalar_subject(gradient, task.dtypes[0], statement.hints)
    if subject is None:
        yield Unreached(not_covered=not_swept(gradient, why))
    else:
        yield from _parts(request, subject)


def _parts(request: Request, subject: Subject) -> Iterator[Swept]:
    """Every float of a single argument; of several, or of too many floats, a grid."""
    task, fmt, rungs = request.task, format_of(subject.dtype), sources(subject)
    swept = Swept(
        gradient=request.gradient.place.qualname, line=request.site.line, dtype=subject.dtype,
        arguments=[leaf.path for leaf in subject.leaves], results=results(subject),
        part=0, parts=0, floats=0, evidence=rungs.evidence, stretches=[], levels=[],
    )  # fmt: skip
    if len(subject.leaves) == 1 and fmt.name != "float64":
        return every_float(line_along(subject, rungs, task.seed), task, swept)
    return grid.parts(subject, rungs, fmt, task, swept)
