"""One gradient: its verdict line, its findings, its notes on one line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import Evidence, Finding, Gradient, Report, Severity, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.report.by_file import Numbered
from gradcheck_cli.report.closing import count
from gradcheck_cli.report.one_cause import with_followers
from gradcheck_cli.report.shapes import in_words, shapes
from gradcheck_cli.report.text.finding import finding_lines
from gradcheck_cli.report.text.lines import Line, wrapped
from gradcheck_cli.report.text.sheet import Sheet
from gradcheck_cli.report.words import (
    FINE,
    about,
    backend_word,
    elsewhere,
    ignored_word,
    in_short,
    is_green,
    own,
    seen,
    verdict_word,
)

_STYLES = {
    Verdict.CORRECT: "bold green",
    Verdict.INTENDED: "bold cyan",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.UNSTABLE: "bold yellow",
    Verdict.WRONG: "bold red",
}


def is_told(numbered: Numbered, findings: Sequence[Finding], quiet: bool) -> bool:
    """Is it shown at all? Where only what is not right is wanted, a warning is."""
    if not quiet:
        return numbered.is_told
    gradient = numbered.gradient
    loud = any(findings[k].severity is not Severity.NOTE for k in gradient.findings)
    return loud or gradient.verdict not in (None, *FINE)


def all_green(gradients: Sequence[Numbered], report: Report) -> bool:
    """Is there nothing to say of them but that they are fine?"""
    findings = report.findings
    return all(
        is_green(each.gradient, [findings[k] for k in each.gradient.findings]) for each in gradients
    )


def counted_verdicts(gradients: Sequence[Numbered], report: Report) -> str:
    """`3 correct, 1 intended · certified · 5 notes`."""
    each = [numbered.gradient for numbered in gradients]
    counts = [(sum(g.verdict is v for g in each), v.value) for v in FINE]
    parts = [", ".join(f"{number} {word}" for number, word in counts if number)]
    parts += sorted({str(g.evidence) for g in each if g.evidence is not None})
    notes = sum(len(own(n.gradient, n.number, report.findings)) for n in gradients)
    return " · ".join([*parts, *([_counted_notes(notes)] if notes else [])])


def gradient_lines(numbered: Numbered, report: Report, sheet: Sheet) -> Iterator[Line]:
    """The lines of the gradient."""
    gradient, number = numbered.gradient, numbered.number
    width, verbose = sheet.width, sheet.verbose
    verdict = gradient.verdict
    style = "bold yellow" if verdict is None else _STYLES[verdict]
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
    yield from wrapped(sheet.words.explain(line), width, "  ", "dim")
    if gradient.reason and gradient.evidence not in (None, Evidence.CERTIFIED):
        yield from wrapped(f"not certified: {gradient.reason}", width, "  ", "dim")
    if gradient.adequacy is not None and (gradient.adequacy.unseen or verbose):
        yield from wrapped(seen(gradient.adequacy, verbose), width, "  ", "")
    yield from _elsewhere(gradient, number, report, width)
    for finding, too in [(f, []) for f in shown] if verbose else with_followers(shown):
        yield []
        yield from finding_lines(finding, sheet, gradient.evidence, too)
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
        yield from wrapped(f"as on {backend}: {', '.join(rules)}", width, "  ", "")


def _notes(notes: Sequence[Finding], width: int) -> Iterator[Line]:
    text = "; ".join(in_short(note) for note in notes)
    lines = textwrap.wrap(text, width - 8, break_on_hyphens=False)
    for i, line in enumerate(lines):
        yield [("  note: " if i == 0 else "        ", "cyan"), (line, "")]


def _details(gradient: Gradient, width: int) -> Iterator[Line]:
    for law in gradient.laws:
        reason = f": {law.reason}" if law.reason else ""
        yield from wrapped(
            f"law {law.law}: {law.outcome}, {law.points} probes{reason}", width, "  ", "dim"
        )
    for item in gradient.inputs:
        yield from wrapped(f"input {in_words(item)}", width, "  ", "dim")


def _counted_notes(number: int) -> str:
    return f"{count(number, 'note')} (-v)"
