"""`cgcheck rules`: all rules, one line each."""

from __future__ import annotations

import typer


def rules() -> None:
    """List all rules by family."""
    typer.echo(listing(), nl=False)


def listing() -> str:
    """Rules under the heading of their family; summaries wrap to 80 columns."""
    import textwrap

    from gradcheck_cli.project.rule_pages import rules as pages

    lines: list[str] = []
    family = ""
    for rule in pages().values():
        if rule.family != family:
            family = rule.family
            lines += ["", family]
        lines.append(f"  {rule.code}  {rule.name} ({rule.severity})")
        lines += textwrap.wrap(rule.summary, 70, initial_indent=" " * 9, subsequent_indent=" " * 9)
    return "\n".join(lines[1:]) + "\n"
