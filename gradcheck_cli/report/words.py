"""What every page says of a gradient and its findings in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.contract.report import (
    Adequacy,
    Cause,
    Finding,
    Gradient,
    Outcome,
    Severity,
    UnseenChange,
    Verdict,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.report.closing import count

FINE = (Verdict.CORRECT, Verdict.INTENDED)
_MOST_UNSEEN = 2


def verdict_word(gradient: Gradient) -> str:
    """`WRONG`, `CORRECT`, `UNCHECKED`."""
    return "UNCHECKED" if gradient.verdict is None else gradient.verdict.upper()


def ignored_word(gradient: Gradient) -> str:
    """`, 1 finding ignored`, behind a verdict."""
    return f", {count(gradient.ignored, 'finding')} ignored" if gradient.ignored else ""


def backend_word(gradient: Gradient) -> str:
    """` on torch`, where its framework runs on several."""
    return f" on {gradient.backend}" if gradient.backend != gradient.framework else ""


def about(gradient: Gradient, findings: Sequence[Finding]) -> str:
    """`line 12 · custom_vjp · formula right · evidence: certified · 300 probes in float32`."""
    parts = [f"line {gradient.line}", gradient.kind]
    formula = next((law for law in gradient.laws if law.law == "formula"), None)
    if formula is not None and formula.outcome is Outcome.PASS:
        parts.append(_passed(gradient, findings))
    elif formula is not None and formula.outcome is Outcome.NOT_COVERED:
        parts.append("formula not covered")
    judged = formula is None or formula.outcome is not Outcome.NOT_COVERED
    if gradient.evidence is not None and judged:
        limited = gradient.adequacy is not None and gradient.adequacy.at_shapes_only
        parts.append(f"evidence: {gradient.evidence}{' at the shapes tried' if limited else ''}")
    if gradient.points:
        parts.append(f"{gradient.points} probes in {', '.join(gradient.dtypes)}")
    return " · ".join(parts)


def _passed(gradient: Gradient, findings: Sequence[Finding]) -> str:
    """What a formula is against which its law has nothing to say: right, or of another derivative that is declared or asked about."""
    if any(f.rule == RuleName.BROKEN_INTENT and f.severity is Severity.ERROR for f in findings):
        return "formula not as declared"
    if gradient.verdict is Verdict.INTENDED:
        return "formula as meant"
    return f"formula right{_order(findings)}"


def _order(findings: Sequence[Finding]) -> str:
    second = any(f.rule == RuleName.WRONG_SECOND_DERIVATIVE for f in findings)
    return " to first order" if second else ""


def is_green(gradient: Gradient, findings: Sequence[Finding]) -> bool:
    """Is it fine, with nothing but notes, and was all seen of it that could be wrong?"""
    seen_all = gradient.adequacy is None or not gradient.adequacy.unseen
    quiet = all(finding.severity is Severity.NOTE for finding in findings)
    fine = gradient.verdict in FINE and not gradient.ignored and not gradient.reason
    return fine and seen_all and quiet


def own(gradient: Gradient, number: int, findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a report that are told under its gradient of this number, and not under another backend's."""
    mine = (findings[k] for k in gradient.findings)
    return [finding for finding in mine if finding.gradient_index == number]


def elsewhere(gradient: Gradient, number: int, findings: Sequence[Finding]) -> dict[int, list[str]]:
    """The rules whose findings stand under an earlier backend, by the number of its gradient."""
    earlier: dict[int, list[str]] = {}
    for finding in (findings[k] for k in gradient.findings):
        if finding.gradient_index is not None and finding.gradient_index != number:
            rules = earlier.setdefault(finding.gradient_index, [])
            rules += [] if finding.rule in rules else [finding.rule]
    return earlier


def seen(adequacy: Adequacy, verbose: bool) -> str:
    """How many small changes would have been seen; the first that would not, and how to see them."""
    text = f"{adequacy.shown} of {count(adequacy.counted, 'small change')} would have been seen"
    told = adequacy.unseen if verbose else adequacy.unseen[:_MOST_UNSEEN]
    if told:
        text += f"; not: {'; '.join(map(unseen, told))}"
        more = len(adequacy.unseen) - len(told)
        text += f"; and {more} more" if more else ""
    if adequacy.not_covered and verbose:
        text += f"; not covered: {adequacy.not_covered}"
    return text


def unseen(change: UnseenChange) -> str:
    """`line 23: sum over axis -1 → axis -2 (try # cgcheck: x=f32[5 3])`."""
    where = "" if change.line is None else f"line {change.line}: "
    if change.path is not None:
        where = f"{change.path}:{change.line}: "
    return where + change.change + (f" (try {change.hint})" if change.hint else "")


def caused(cause: Cause, path: str) -> str:
    """`line 12: log(1 + e) …`; the file too, where it is another."""
    if cause.line is None:
        return cause.text
    where = f"line {cause.line}" if cause.path == path else f"{cause.path}:{cause.line}"
    return f"{where}: `{cause.expression}` {cause.text}"


def in_short(note: Finding) -> str:
    """The message of a note with the truth at its witness."""
    witness = note.witness
    truth = witness and (witness.truth if witness.argument else witness.value_real)
    if note.rule in (RuleName.IMPRECISE_GRADIENT, RuleName.IMPRECISE_VALUE) and witness and truth:
        at = ", ".join(
            f"{i.path} = {_plain(i.value)}"
            for i in witness.inputs
            if isinstance(i.value, (float, int, str))
        )
        return (
            f"{note.message} (truth {truth} at {at})" if at else f"{note.message} (truth {truth})"
        )
    return note.message


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
