"""`cgcheck explain RULE`: the page of a rule."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    rule: Annotated[
        str | None, typer.Argument(help="A rule's name or code.", show_default=False)
    ] = None,
    all_rules: Annotated[bool, typer.Option("--list", help="List all rules.")] = False,
) -> None:
    """Explain a rule: what it finds, why that is bad, what to write instead."""
    from gradcheck_cli.cli.rules import listing
    from gradcheck_cli.contract.errors import UsageError
    from gradcheck_cli.project.rule_pages import find

    if all_rules:
        typer.echo(listing(), nl=False)
        return
    if rule is None:
        raise UsageError("name a rule, as in `cgcheck explain gradient-mismatch`, or use --list")
    page = find(rule)
    typer.echo(f"{page.name} ({page.code}, {page.severity})\n\n{page.body}", nl=False)
