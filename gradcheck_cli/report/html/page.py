"""HTML: the report as one page that opens from a file, reads well on paper, and lets itself be searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import Finding, Report, Verdict
from gradcheck_cli.project.rule_pages import Rule, find
from gradcheck_cli.report.by_file import Numbered, Section, sections
from gradcheck_cli.report.closing import closing, count, start_with
from gradcheck_cli.report.html.document import document
from gradcheck_cli.report.html.finding import article
from gradcheck_cli.report.html.gradient import card, tone
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.markup import Markup, element, joined
from gradcheck_cli.report.rule_page import page as rule_page

_RULE_WIDTH = 96


def render(report: Report, look: Look) -> str:
    """The whole page."""
    shown = [f for f in report.findings if look.verbose or f.withdrawn_by is None]
    files = sections(report)
    body = joined(
        _header(report),
        element("nav", *_contents(files), aria_label="Gradients"),
        element(
            "main",
            *(part for section in files for part in _file(section, report, look)),
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
    told = (each for section in sections(report) for each in section.gradients if each.is_told)
    verdicts = [tone(each.gradient) for each in told]
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


def _contents(files: Sequence[Section]) -> Iterator[Markup]:
    """A link to each gradient that has a card, by file."""
    for section in files:
        told = [each for each in section.gradients if each.is_told]
        if told:
            yield element("h2", section.path)
            yield element("ul", *map(_link, told))


def _link(numbered: Numbered) -> Markup:
    word, aim = tone(numbered.gradient), f"g{numbered.number}"
    link = element("a", numbered.gradient.qualname, href=f"#{aim}", class_=word, title=word)
    return element("li", link, data_entry=aim)


def _file(section: Section, report: Report, look: Look) -> Iterator[Markup]:
    """A file: what is found of itself, then its gradients; what could not be checked stands below all."""
    shown = (f for f in section.findings if look.verbose or f.withdrawn_by is None)
    found = [article(finding, look.root) for finding in shown]
    cards = [card(each, report, look) for each in section.gradients if each.is_told]
    if found or cards:
        yield element("section", element("h2", section.path), *found, *cards, class_="file")


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
