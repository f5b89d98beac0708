"""The page: files, gradients, findings, what was not covered, the closing line."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.contract.report import (
    Evidence,
    Finding,
    Gradient,
    NotCovered,
    Report,
    Severity,
    Verdict,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.report.by_file import Numbered, sections
from gradcheck_cli.report.closing import closing, count, start_with
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.shapes import in_words, shapes
from gradcheck_cli.report.text.alike import listed, shared, with_one_reason
from gradcheck_cli.report.text.caret import difference, source_lines
from gradcheck_cli.report.text.one_cause import with_followers
from gradcheck_cli.report.text.plot import plot_lines
from gradcheck_cli.report.text.witness import witness_lines
from gradcheck_cli.report.words import (
    FINE,
    about,
    backend_word,
    caused,
    elsewhere,
    ignored_word,
    in_short,
    is_green,
    own,
    seen,
    verdict_word,
)

_WIDEST, _NARROWEST = 100, 60

_SEVERITY_STYLE = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.NOTE: "cyan",
}
_VERDICT_STYLE = {
    Verdict.CORRECT: "bold green",
    Verdict.INTENDED: "bold cyan",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.UNSTABLE: "bold yellow",
    Verdict.WRONG: "bold red",
}

Line = list[tuple[str, str]]  # pieces of (text, style)
# Bell, backspace, vertical tab, form feed, carriage return.
_MOVES = dict.fromkeys((7, 8, 11, 12, 13))


def render(report: Report, look: Look) -> str:
    """The whole report as text."""
    columns = look.width or shutil.get_terminal_size((80, 24)).columns
    columns = max(_NARROWEST, min(_WIDEST, columns))
    lines = list(_page(report, look, columns))
    text = _colored(lines, columns) if look.color else _plain(lines)
    return "\n".join(part.rstrip() for part in text.splitlines()) + "\n"


def _colored(lines: Sequence[Line], columns: int) -> str:
    """The lines with the terminal's colours; what makes them is imported for these alone."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=columns + 1, highlight=False,
        soft_wrap=True, legacy_windows=False,
    )  # fmt: skip
    for line in lines:
        console.print(Text.assemble(*line), end="\n")
    return out.getvalue()


def _plain(lines: Sequence[Line]) -> str:
    """The lines without colours, and without what would move the cursor."""
    whole = "\n".join("".join(text for text, _ in line) for line in lines)
    return whole.translate(_MOVES)


def _page(report: Report, look: Look, width: int) -> Iterator[Line]:
    root, verbose = look.root, look.verbose
    alike = shared(report)
    in_short = False
    for section in sections(report):
        path = section.path
        mine = [f for f in section.findings if verbose or f.withdrawn_by is None]
        here = [each for each in section.gradients if _is_told(each, look.quiet)]
        loud = [f for f in mine if not look.quiet or f.severity is not Severity.NOTE]
        if not (here or loud):
            continue
        if [f.rule for f in mine] == [RuleName.NO_CUSTOM_GRADIENTS] and not verbose:
            yield [(path, "bold underline"), (f"  {mine[0].message}", "dim")]
            continue
        if alike.follows(path) and not verbose:
            continue
        if report.summary.files > 1 and not (verbose or mine) and _all_green(here, report):
            yield [(path, "bold underline"), (f"  {_in_short(here, report)}", "green")]
            in_short = True
            continue
        if in_short:
            yield []
        in_short = False
        yield [(path, "bold underline")]
        for finding in mine:
            yield []
            yield from _finding(finding, root, width, verbose=verbose)
        if path in alike.others and not verbose:
            others = listed(alike.others[path])
            yield from _labelled("same", f"in {others} (-v tells each)", width, "")
        for each in here:
            yield []
            yield from _gradient(each, report, root, width, verbose)
        yield []
    if in_short:
        yield []
    yield from _not_covered(report.not_covered, report.summary.files > 1, width, verbose)
    yield from _closing(report, width)


def _all_green(gradients: Sequence[Numbered], report: Report) -> bool:
    findings = report.findings
    return all(
        is_green(each.gradient, [findings[k] for k in each.gradient.findings]) for each in gradients
    )


def _in_short(gradients: Sequence[Numbered], report: Report) -> str:
    """`3 correct, 1 intended · certified · 5 notes`."""
    each = [numbered.gradient for numbered in gradients]
    counts = [(sum(g.verdict is v for g in each), v.value) for v in FINE]
    parts = [", ".join(f"{number} {word}" for number, word in counts if number)]
    parts += sorted({str(g.evidence) for g in each if g.evidence is not None})
    notes = sum(len(own(n.gradient, n.number, report.findings)) for n in gradients)
    return " · ".join([*parts, *([_counted_notes(notes)] if notes else [])])


def _counted_notes(number: int) -> str:
    return f"{count(number, 'note')} (-v)"


def _is_told(numbered: Numbered, quiet: bool) -> bool:
    if quiet:
        return numbered.gradient.verdict not in (None, *FINE)
    return numbered.is_told


def _gradient(
    numbered: Numbered, report: Report, root: Path, width: int, verbose: bool
) -> Iterator[Line]:
    """The verdict line, the findings, the notes on one line."""
    gradient, number = numbered.gradient, numbered.number
    verdict = gradient.verdict
    style = "bold yellow" if verdict is None else _VERDICT_STYLE[verdict]
    word, on = verdict_word(gradient), backend_word(gradient)
    ignored = ignored_word(gradient)
    room = width - len(f"{gradient.qualname}{on}  {word} {ignored}")
    at = shapes(gradient.inputs, room)
    tail = [(f" {at}", "dim")] if at else []
    yield [(gradient.qualname, "bold"), (on, ""), ("  ", ""), (word, style), *tail, (ignored, "")]
    findings = own(gradient, number, report.findings)
    told = (f for f in findings if verbose or f.severity is not Severity.NOTE)
    shown = list(told)
    blind = [f for f in findings if f.rule == RuleName.BLIND_INPUTS]  # told by `_seen`
    notes = [f for f in findings if f not in shown and f not in blind]
    folded = verdict in FINE and not verbose
    line = about(gradient, findings)
    if folded and (untold := len(notes) + (0 if verbose else len(blind))):
        line += f" · {_counted_notes(untold)}"
    yield from _wrapped(line, width, "  ", "dim")
    if gradient.reason and gradient.evidence not in (None, Evidence.CERTIFIED):
        yield from _wrapped(f"not certified: {gradient.reason}", width, "  ", "dim")
    if gradient.adequacy is not None and (gradient.adequacy.unseen or verbose):
        yield from _wrapped(seen(gradient.adequacy, verbose), width, "  ", "")
    yield from _elsewhere(gradient, number, report, width)
    for finding, too in [(f, []) for f in shown] if verbose else with_followers(shown):
        yield []
        yield from _finding(finding, root, width, gradient.evidence, verbose, too)
    if notes and not folded:
        yield []
        yield from _notes(notes, width)
    if verbose:
        yield []
        yield from _details(gradient, width)


def _elsewhere(gradient: Gradient, number: int, report: Report, width: int) -> Iterator[Line]:
    """The rules whose findings stand under an earlier backend."""
    for other, rules in elsewhere(gradient, number, report.findings).items():
        backend = report.gradients[other].backend
        yield from _wrapped(f"as on {backend}: {', '.join(rules)}", width, "  ", "")


def _finding(
    finding: Finding,
    root: Path,
    width: int,
    evidence: Evidence | None = None,
    verbose: bool = False,
    too: Sequence[Finding] = (),
) -> Iterator[Line]:
    """One block: what, where, the numbers, the plot, what else is of the same cause, and what to do about it."""
    head = f"{finding.severity}[{finding.rule}] "
    modes = " (op by op, not under jit)" if finding.modes == ["op-by-op"] else ""
    first, *rest = textwrap.wrap(head + finding.message + modes, width - 2) or [head]
    yield [
        ("  ", ""),
        (first[: len(head)].rstrip(), _SEVERITY_STYLE[finding.severity]),
        (" " + first[len(head) :], ""),
    ]
    for line in rest:
        yield [("  " + line, "")]
    for text, style in source_lines(finding, root, width):
        yield [(text, style)]
    if finding.witness is not None:
        for text in witness_lines(finding, width, evidence):
            yield [(text, "")]
    if finding.profile is not None:
        for text in plot_lines(finding.profile, width):
            yield [(text, "blue")]
    for other in too:
        text = f"{other.severity}[{other.rule}] {other.message} (id {other.fingerprint[:8]})"
        yield from _labelled("too", text, width, _SEVERITY_STYLE[other.severity])
    yield from _advice(finding, root, width, verbose)


def _advice(finding: Finding, root: Path, width: int, verbose: bool) -> Iterator[Line]:
    """Why it is so, what to write, how to see it again."""
    if finding.traceback and verbose:
        yield from _labelled("calls", ", then ".join(finding.traceback), width, "")
    if finding.pattern is not None:
        yield from _labelled(
            "form", f"{finding.pattern} (`cgcheck explain {finding.pattern}`)", width, ""
        )
    if finding.cause is not None:
        yield from _labelled("cause", caused(finding.cause, finding.path), width, "")
    if finding.fix:
        yield from _labelled("write", finding.fix, width, "green")
        if finding.gradient is not None:
            yield from ([line] for line in difference(finding, root, width))
    elif finding.help:
        yield from _labelled("help", finding.help, width, "")
    if finding.expect:
        yield from _labelled("or", f"declare it, if it is meant: `# cgcheck: {finding.expect}`", width, "")  # fmt: skip
    if finding.reproduce:
        yield from _labelled("again", finding.reproduce, width, "dim")
        yield from _labelled("id", _id(finding), width, "dim")


def _id(finding: Finding) -> str:
    """The short form of a finding's fingerprint; with the command for its numbers, where they are too many for `--at`."""
    short = finding.fingerprint[:8]
    shown = finding.witness is None or "--at" in (finding.reproduce or "")
    return short if shown else f"{short} (`cgcheck repro {short}` writes all its numbers)"


def _labelled(label: str, text: str, width: int, style: str) -> Iterator[Line]:
    lines = [
        part
        for raw in text.splitlines()
        for part in textwrap.wrap(raw, width - 12, break_long_words=False, break_on_hyphens=False)
        or [""]
    ]
    for i, line in enumerate(lines):
        yield [(f"    {label if i == 0 else '':<6}", "bold"), (line, style)]


def _notes(notes: Sequence[Finding], width: int) -> Iterator[Line]:
    text = "; ".join(in_short(note) for note in notes)
    lines = textwrap.wrap(text, width - 8, break_on_hyphens=False)
    for i, line in enumerate(lines):
        yield [("  note: " if i == 0 else "        ", "cyan"), (line, "")]


def _details(gradient: Gradient, width: int) -> Iterator[Line]:
    for law in gradient.laws:
        reason = f": {law.reason}" if law.reason else ""
        yield from _wrapped(
            f"law {law.law}: {law.outcome}, {law.points} probes{reason}", width, "  ", "dim"
        )
    for item in gradient.inputs:
        yield from _wrapped(f"input {in_words(item)}", width, "  ", "dim")


def _not_covered(
    items: Sequence[NotCovered], of_several: bool, width: int, verbose: bool
) -> Iterator[Line]:
    if not items:
        return
    yield [("Could not check", "bold yellow")]
    each = [(item, item.gradient) for item in items]
    for item, names in each if verbose else with_one_reason(items):
        where = f"{item.path}: " if of_several and item.path and names == item.gradient else ""
        text = f"{where}{names}: {item.what}: {item.reason}"
        yield from _wrapped(text, width, "  ", "")
        if item.add:
            yield from _wrapped(f"to check it, add {item.add}", width, "    ", "dim")
    yield []


def _closing(report: Report, width: int) -> Iterator[Line]:
    s = report.summary
    style = "bold red" if s.errors else "bold yellow" if s.warnings or s.unchecked else "bold green"
    yield from _wrapped(closing(report), width, "", style)
    if start := start_with(report):
        yield from _wrapped(start, width, "", style)
    if report.durations:
        for path, seconds in report.durations.items():
            yield [(f"  {seconds:7.2f} s  {path}", "dim")]


def _wrapped(text: str, width: int, indent: str, style: str) -> Iterator[Line]:
    for line in textwrap.wrap(text, width - len(indent), break_on_hyphens=False) or [""]:
        yield [(indent + line, style)]
