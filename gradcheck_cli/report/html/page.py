"""HTML: the report as one page that opens from a file, reads well on paper, and lets itself be searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import Finding, Gradient, Report, Status, Verdict
from gradcheck_cli.project.rule_pages import Rule, find
from gradcheck_cli.report.closing import closing, count, start_with
from gradcheck_cli.report.html.document import document
from gradcheck_cli.report.html.finding import article
from gradcheck_cli.report.html.gradient import card, tone
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.markup import Markup, element, joined
from gradcheck_cli.report.rule_page import page as rule_page
from gradcheck_cli.report.words import own

_RULE_WIDTH = 96


def render(report: Report, look: Look) -> str:
    """The whole page."""
    shown = [f for f in report.findings if look.verbose or f.withdrawn_by is None]
    body = joined(
        _header(report),
        element("nav", *_contents(report), aria_label="Gradients"),
        element(
            "main",
            *(_file(path, report, shown, look) for path in _paths(report, shown)),
            *_left_out(report),
            *_rules(shown),
        ),
        element("footer", _versions(report)),
    )
    return document("cgcheck", body, plots=any(g.plots for g in report.gradients))


def _header(report: Report) -> Markup:
    """What was found, in one line; verdicts to filter by, and a field to search."""
    found = [element("p", closing(report), class_="closing")]
    if start := start_with(report):
        found.append(element("p", start))
    verdicts = [tone(gradient) for gradient in report.gradients]
    chips = [
        element(
            "button", element("b", str(verdicts.count(word))), f" {word}", class_=f"chip {word}", data_tone=word,
            aria_pressed="true", type="button",
        )
        for word in (*map(str, reversed(Verdict)), "unchecked")
        if word in verdicts
    ]  # fmt: skip
    search = element(
        "input", type="search", id="search", placeholder="Search names, files, rules", aria_label="Search"
    )  # fmt: skip
    tools = element("div", *chips, search, class_="tools") if verdicts else ""
    return element("header", element("h1", "cgcheck"), *found, tools)


def _contents(report: Report) -> Iterator[Markup]:
    """A link to each gradient, by file."""
    for path in dict.fromkeys(g.path for g in report.gradients):
        yield element("h2", path)
        links = [
            element(
                "li", element("a", g.qualname, href=f"#g{k}", class_=tone(g), title=tone(g)), data_entry=f"g{k}"
            )
            for k, g in enumerate(report.gradients)
            if g.path == path
        ]  # fmt: skip
        yield element("ul", *links)


def _paths(report: Report, shown: Sequence[Finding]) -> list[str]:
    return sorted({*(g.path for g in report.gradients), *(f.path for f in shown)})


def _file(path: str, report: Report, shown: Sequence[Finding], look: Look) -> Markup:
    """A file: what is found of itself, then its gradients."""
    of_file = [f for f in shown if f.path == path and f.gradient_index is None]
    cards = [
        card(gradient, number, own(gradient, number, report.findings), report, look)
        for number, gradient in enumerate(report.gradients)
        if gradient.path == path and _is_told(gradient)
    ]
    found = [article(finding, look.root) for finding in of_file]
    return element("section", element("h2", path), *found, *cards, class_="file")


def _is_told(gradient: Gradient) -> bool:
    return gradient.status is Status.CHECKED or bool(gradient.findings)


def _left_out(report: Report) -> Iterator[Markup]:
    """What could not be checked, why, and the line to add."""
    if not report.not_covered:
        return
    items = []
    for item in report.not_covered:
        about = element(
            "p", element("b", item.gradient), f" ({item.path or '?'}): {item.what}: {item.reason}"
        )
        add = element("pre", item.add.strip("`")) if item.add else ""
        items.append(element("li", about, add))
    yield element(
        "section", element("h2", "Could not check"), element("ul", *items), class_="left-out"
    )


def _rules(shown: Sequence[Finding]) -> Iterator[Markup]:
    """The page of every rule that was found, to be opened."""
    names = sorted({finding.rule for finding in shown})
    if not names:
        return
    pages = [_rule(find(name)) for name in names]
    title = f"About {count(len(names), 'rule')}"
    yield element("section", element("h2", title), *pages, class_="rules")


def _rule(rule: Rule) -> Markup:
    return element(
        "details",
        element("summary", element("code", rule.name), f" {rule.summary}"),
        element("pre", rule_page(rule, _RULE_WIDTH)),
        id=f"rule-{rule.name}",
    )


def _versions(report: Report) -> str:
    tool = report.tool
    frameworks = (
        ("JAX", tool.jax),
        ("torch", tool.torch),
        ("TensorFlow", tool.tensorflow),
        ("Keras", tool.keras),
    )
    used = [f"{name} {version}" for name, version in frameworks if version]
    return " · ".join([f"cgcheck {tool.version}", *used])
