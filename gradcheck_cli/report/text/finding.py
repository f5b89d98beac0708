"""One finding as a block: what, where, the numbers, the plot, what else is of the same cause, and what to do about it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import Evidence, Finding, Severity
from gradcheck_cli.report.text.caret import difference, source_lines
from gradcheck_cli.report.text.lines import Line, labelled
from gradcheck_cli.report.text.plot import plot_lines
from gradcheck_cli.report.text.sheet import Sheet
from gradcheck_cli.report.text.witness import witness_lines
from gradcheck_cli.report.words import caused

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.NOTE: "cyan",
}


def finding_lines(
    finding: Finding, sheet: Sheet, evidence: Evidence | None = None, too: Sequence[Finding] = ()
) -> Iterator[Line]:
    """The lines of the block; `too` are told in it as well."""
    width = sheet.width
    head = f"{finding.severity}[{finding.rule}] "
    modes = " (op by op, not under jit)" if finding.modes == ["op-by-op"] else ""
    first, *rest = textwrap.wrap(
        head + sheet.words.explain(finding.message) + modes, width - 2
    ) or [head]
    yield [
        ("  ", ""),
        (first[: len(head)].rstrip(), _STYLES[finding.severity]),
        (" " + first[len(head) :], ""),
    ]
    for line in rest:
        yield [("  " + line, "")]
    for text, style in source_lines(finding, sheet.root, width):
        yield [(text, style)]
    if finding.witness is not None:
        for text in witness_lines(finding, width, evidence):
            yield [(text, "")]
    if finding.profile is not None:
        for text in plot_lines(finding.profile, width):
            yield [(text, "blue")]
    for other in too:
        text = f"{other.severity}[{other.rule}] {other.message} (id {other.fingerprint[:8]})"
        yield from labelled("too", text, width, _STYLES[other.severity])
    yield from _advice(finding, sheet)


def _advice(finding: Finding, sheet: Sheet) -> Iterator[Line]:
    """Why it is so, what to write, how to see it again."""
    width = sheet.width
    if finding.traceback and sheet.verbose:
        yield from labelled("calls", ", then ".join(finding.traceback), width, "")
    if finding.pattern is not None:
        yield from labelled(
            "form", f"{finding.pattern} (`cgcheck explain {finding.pattern}`)", width, ""
        )
    if finding.cause is not None:
        yield from labelled("cause", caused(finding.cause, finding.path), width, "")
    if finding.fix:
        yield from labelled("write", finding.fix, width, "green")
        if finding.gradient is not None:
            yield from ([line] for line in difference(finding, sheet.root, width))
    elif finding.help:
        yield from labelled("help", finding.help, width, "")
    if finding.expect:
        yield from labelled("or", f"declare it, if it is meant: `# cgcheck: {finding.expect}`", width, "")  # fmt: skip
    if finding.reproduce:
        yield from labelled("again", finding.reproduce, width, "dim")
        yield from labelled("id", _id(finding), width, "dim")


def _id(finding: Finding) -> str:
    """The short form of a finding's fingerprint; with the command for its numbers, where they are too many for `--at`."""
    short = finding.fingerprint[:8]
    shown = finding.witness is None or "--at" in (finding.reproduce or "")
    return short if shown else f"{short} (`cgcheck repro {short}` writes all its numbers)"
