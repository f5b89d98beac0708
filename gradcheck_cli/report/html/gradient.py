"""A gradient as a card: verdict, findings, pictures; laws and inputs to be opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import Evidence, Finding, Gradient, Plot, Report, Severity
from gradcheck_cli.report.by_file import Numbered
from gradcheck_cli.report.html.figure import figure
from gradcheck_cli.report.html.finding import article
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.markup import Markup, element
from gradcheck_cli.report.one_cause import with_followers
from gradcheck_cli.report.shapes import in_words, shapes
from gradcheck_cli.report.words import (
    FINE,
    about,
    backend_word,
    elsewhere,
    ignored_word,
    in_short,
    own,
    seen,
    verdict_word,
)

_ROOM = 120  # letters for shapes


def tone(gradient: Gradient) -> str:
    """The verdict as a word for filters and colours."""
    return "unchecked" if gradient.verdict is None else str(gradient.verdict)


def card(numbered: Numbered, report: Report, look: Look) -> Markup:
    """Open where something is to be read; what stands under another backend is named."""
    gradient, number = numbered.gradient, numbered.number
    findings = own(gradient, number, report.findings)
    loud = [f for f in findings if f.severity is not Severity.NOTE]
    notes = [f for f in findings if f.severity is Severity.NOTE]
    blocks = with_followers(loud)
    words = " ".join(
        (gradient.qualname, gradient.path, tone(gradient), *(f.rule for f in findings))
    )
    body = (
        element("p", about(gradient, findings), class_="about"),
        *_doubts(gradient, look.verbose),
        *_as_elsewhere(gradient, number, report),
        *(article(f, look.root, gradient.evidence, _of(f, gradient), too) for f, too in blocks),
        *_notes(notes),
        *_others(gradient, findings, [finding for finding, _ in blocks]),
        *_details(gradient),
    )
    return element(
        "details", element("summary", *_summary(gradient)), *body, class_=f"card {tone(gradient)}", id=f"g{number}",
        data_tone=tone(gradient), data_words=words.lower(), open=gradient.verdict not in FINE or bool(loud),
    )  # fmt: skip


def _summary(gradient: Gradient) -> Iterator[Markup]:
    words = verdict_word(gradient) + ignored_word(gradient)
    yield element("span", words, class_=f"badge {tone(gradient)}")
    yield element("code", gradient.qualname, class_="name")
    if on := backend_word(gradient).strip():
        yield element("span", on)
    yield element("span", shapes(gradient.inputs, _ROOM), class_="faint")
    yield element("span", f"{gradient.path}:{gradient.line}", class_="place")


def _doubts(gradient: Gradient, verbose: bool) -> Iterator[Markup]:
    """Why it is not certified, and what the inputs could not have shown."""
    if gradient.reason and gradient.evidence not in (None, Evidence.CERTIFIED):
        yield element("p", f"not certified: {gradient.reason}")
    if gradient.adequacy is not None:
        yield element("p", seen(gradient.adequacy, verbose))


def _as_elsewhere(gradient: Gradient, number: int, report: Report) -> Iterator[Markup]:
    for other, rules in elsewhere(gradient, number, report.findings).items():
        there = element("a", report.gradients[other].backend, href=f"#g{other}")
        yield element("p", "as on ", there, f": {', '.join(rules)}")


def _of(finding: Finding, gradient: Gradient) -> Plot | None:
    """The plot on whose line a finding lies; the first of those that share one has it."""
    plots = (plot for plot in gradient.plots if plot.shows[:1] == [finding.fingerprint])
    return next(plots, None)


def _others(
    gradient: Gradient, findings: Sequence[Finding], told: Sequence[Finding]
) -> Iterator[Markup]:
    """The pictures that stand at no finding."""
    shown = {f.fingerprint for f in told}
    left = [plot for plot in gradient.plots if not plot.shows or plot.shows[0] not in shown]
    if left:
        yield element("div", *(figure(plot, findings) for plot in left), class_="figures")


def _notes(notes: Sequence[Finding]) -> Iterator[Markup]:
    if notes:
        items = [
            element("li", element("a", element("code", n.rule), href=f"#rule-{n.rule}"), f" {in_short(n)}")
            for n in notes
        ]  # fmt: skip
        yield element("ul", *items, class_="notes")


def _details(gradient: Gradient) -> Iterator[Markup]:
    """Laws and inputs, as `-v` tells them."""
    laws = [
        element(
            "tr", element("td", law.law), element("td", law.outcome, class_=law.outcome), element("td", str(law.points)),
            element("td", law.reason or ""),
        )
        for law in gradient.laws
    ]  # fmt: skip
    if laws:
        head = element("tr", *(element("th", word) for word in ("law", "outcome", "probes", "")))
        yield element(
            "details", element("summary", "Laws"), element("table", head, *laws), class_="more"
        )
    inputs = [element("li", in_words(item)) for item in gradient.inputs]
    if inputs:
        yield element(
            "details", element("summary", "Inputs"), element("ul", *inputs), class_="more"
        )
