"""A finding: what, where, the numbers, the picture, why, and what to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.contract.report import Evidence, Finding, Plot
from gradcheck_cli.report.html.figure import figure
from gradcheck_cli.report.markup import Markup, element, joined
from gradcheck_cli.report.numbers import by_evidence, rows, where
from gradcheck_cli.report.source_lines import hunks, lines
from gradcheck_cli.report.words import caused

_AROUND = 2  # lines of the source before and after
_MOST_LINES = 12  # of what is marked, and of a difference


def article(
    finding: Finding,
    root: Path,
    evidence: Evidence | None = None,
    plot: Plot | None = None,
    too: Sequence[Finding] = (),
) -> Markup:
    """One finding; `plot` is the line it lies on, `too` are told in it as well, being of the same cause."""
    return element(
        "article",
        element("h3", *_title(finding)),
        *_source(finding, root),
        *_numbers(finding, evidence),
        *([figure(plot, [finding])] if plot is not None else []),
        *_advice(finding, root, too),
        class_=f"finding {finding.severity}",
    )


def _title(finding: Finding) -> tuple[Markup | str, ...]:
    rule = element("a", element("code", finding.rule), href=f"#rule-{finding.rule}")
    pill = element("span", finding.severity, class_=f"pill {finding.severity}")
    return pill, " ", rule, " ", finding.message


def _source(finding: Finding, root: Path) -> Iterator[Markup]:
    """The lines around, with what is blamed marked; nothing where the file cannot be read."""
    last = min(finding.end_line or finding.line, finding.line + _MOST_LINES)
    first = max(1, finding.line - _AROUND)
    texts = lines(root, finding.path, first, last + _AROUND)
    while texts and not texts[-1].strip():
        texts.pop()
    if len(texts) <= finding.line - first:
        return
    shown = []
    for number, text in enumerate(texts, start=first):
        here = finding.line <= number <= last
        code = _marked(text, number, finding) if here else joined(text)
        shown.append(
            element("span", element("i", str(number)), code, "\n", class_="at" if here else None)
        )
    yield element("p", f"{finding.path}:{finding.line}", class_="place")
    yield element("pre", *shown, class_="source")


def _marked(text: str, number: int, finding: Finding) -> Markup:
    """The line with its part of the expression in a mark."""
    if finding.end_column is None:
        return joined(text)
    start = finding.column - 1 if number == finding.line else len(text) - len(text.lstrip())
    stop = finding.end_column - 1 if number == (finding.end_line or finding.line) else len(text)
    if stop <= start:
        return joined(text)
    return joined(text[:start], element("mark", text[start:stop]), text[stop:])


def _numbers(finding: Finding, evidence: Evidence | None) -> Iterator[Markup]:
    if finding.witness is None:
        return
    yield element("p", "at ", element("code", where(finding.witness)), class_="where")
    table = rows(finding.witness)
    if table:
        dtype = finding.dtypes[0] if finding.dtypes else "float"
        head = element("tr", *(element("th", word) for word in ("", dtype, by_evidence(evidence))))
        body = [
            element("tr", element("th", r.name), element("td", r.floats), element("td", r.real))
            for r in table
        ]
        yield element("table", head, *body, class_="numbers")


def _advice(finding: Finding, root: Path, too: Sequence[Finding]) -> Iterator[Markup]:
    """What else it is, why it is so, what to write, how to see it again."""
    parts = [("too", joined(*_title(other))) for other in too]
    if finding.cause is not None:
        parts.append(("cause", joined(caused(finding.cause, finding.path))))
    if finding.fix:
        parts.append(("write", element("code", finding.fix)))
    elif finding.help:
        parts.append(("help", joined(finding.help)))
    if finding.expect:
        parts.append(
            (
                "or",
                joined(
                    "declare it, if it is meant: ", element("code", f"# cgcheck: {finding.expect}")
                ),
            )
        )
    if finding.reproduce:
        button = element(
            "button", "copy", type="button", class_="copy", data_copy=finding.reproduce
        )
        parts.append(("again", joined(element("code", finding.reproduce), " ", button)))
    if parts:
        yield element(
            "dl", *(joined(element("dt", name), element("dd", text)) for name, text in parts)
        )
    yield from _difference(finding, root)


def _difference(finding: Finding, root: Path) -> Iterator[Markup]:
    """The lines that a repair changes, before and after."""
    for hunk in hunks(root, finding.path, finding.edits):
        if len(hunk.old) + len(hunk.new) > _MOST_LINES:
            continue
        changed = [
            element(tag, f"{sign} {line}\n")
            for tag, sign, side in (("del", "-", hunk.old), ("ins", "+", hunk.new))
            for line in side
        ]
        yield element("pre", *changed, class_="difference")
