"""Markdown: a comment on a pull request, or the summary of a job."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from gradcheck_cli.contract.report import (
    Finding,
    Gradient,
    Report,
    Severity,
    Verdict,
    Witness,
)
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.numbers import rows, where
from gradcheck_cli.report.told import headline, one_line, told, unchecked

# What Markdown or HTML would take for its own.
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~@])")
_MOST_LETTERS = 60_000  # a comment on GitHub holds 65,536
_BAD = (Verdict.WRONG, Verdict.UNSTABLE, Verdict.INCONCLUSIVE)


def render(report: Report, look: Look) -> str:
    """The closing line, a table of what is not right, the numbers of each finding, what could not be checked."""
    parts = [f"## cgcheck\n\n{_escaped(closing(report))}\n"]
    findings = list(told(report, look.verbose))
    sections = (_verdicts(report), *map(_finding, findings), _left_out(report))
    room = _MOST_LETTERS - len(parts[0])
    for number, section in enumerate(filter(None, sections)):
        room -= len(section) + 1
        if room < 0:
            parts.append(
                f"… and more: {len(findings)} findings in all ({number} parts are shown).\n"
            )
            break
        parts.append(section)
    return "\n".join(parts)


def _verdicts(report: Report) -> str:
    """A row for each gradient that is not right."""
    bad = [g for g in report.gradients if g.verdict in _BAD]
    if not bad:
        return ""
    table = ["| gradient | verdict | place |", "|---|---|---|"]
    table += [f"| {_escaped(g.qualname)} | **{g.verdict}** | {_escaped(_place(g))} |" for g in bad]
    return "\n".join(table) + "\n"


def _place(gradient: Gradient) -> str:
    return f"{gradient.path}:{gradient.line}"


def _finding(finding: Finding) -> str:
    """A finding that opens: where, the numbers, what to do."""
    told_at = f"{headline(finding)} ({one_line(finding.path)}:{finding.line})"
    head = f"<b>{finding.severity}</b> {html.escape(told_at)}"  # no Markdown is read in a summary
    opened = " open" if finding.severity is Severity.ERROR else ""
    return "\n".join(
        (f"<details{opened}><summary>{head}</summary>\n", *_body(finding), "</details>\n")
    )


def _body(finding: Finding) -> Iterator[str]:
    if finding.witness is not None:
        yield from _numbers(finding.witness)
    if finding.fix:
        yield f"Write: {_code(finding.fix)}\n"
    elif finding.help:
        yield f"{_escaped(one_line(finding.help))}\n"
    if finding.expect:
        yield f"If it is meant: {_code(f'# cgcheck: {finding.expect}')}\n"
    if finding.reproduce:
        yield f"Again: {_code(finding.reproduce)}\n"
    yield f"Rule: {_code(finding.rule)} ({finding.code})\n"


def _numbers(witness: Witness) -> Iterator[str]:
    """What rule, autodiff and truth are at the inputs."""
    yield f"At {_code(where(witness))}:\n"
    table = rows(witness)
    if table:
        yield "| | floats | over the reals |\n|---|---|---|"
        for row in table:
            yield f"| {row.name} | {_escaped(row.floats)} | {_escaped(row.real)} |"
        yield ""


def _left_out(report: Report) -> str:
    items = list(unchecked(report))
    if not items:
        return ""
    lines = ["### Could not check\n"]
    for item, path, line in items:
        add = f" Add {_code(item.add.strip('`'))}." if item.add else ""
        about = f"{item.gradient} ({path}:{line}): {item.reason}"
        lines.append(f"- {_escaped(one_line(about))}{add}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", one_line(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")


def _code(text: str) -> str:
    """The text as code, in more backticks than stand in it."""
    line = one_line(text)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{line}{pad}{fence}"
