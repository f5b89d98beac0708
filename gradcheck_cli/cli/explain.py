"""`cgcheck explain RULE`: the page of a rule or an intent; `cgcheck rules`: all rules, one line each."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

_NARROW = 70  # columns of a list


def known_rules(incomplete: str) -> list[tuple[str, str]]:
    """The rules, families and intents that begin so, each with what it is about."""
    from gradcheck_cli.project.intent_specs import FORMS
    from gradcheck_cli.project.rule_pages import rules as pages

    every = pages().values()
    named = [
        *((rule.name, rule.summary) for rule in every),
        *((family, "a family") for family in dict.fromkeys(rule.family for rule in every)),
        *((intent, form.law) for intent, form in FORMS.items()),
    ]
    return [(name, about) for name, about in named if name.startswith(incomplete)]


def explain(
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE",
            help="A rule's name or code, a family, or what can be declared.",
            show_default=False,
            autocompletion=known_rules,
        ),
    ] = None,
    all_rules: Annotated[bool, typer.Option("--list", help="List all rules.")] = False,
) -> None:
    """Explain a rule or a family: what it finds, why that is bad, what to write instead.

    An intent, too, such as `gauge`: how it is declared, and the law that it is held to.
    """
    from gradcheck_cli.contract.errors import UsageError
    from gradcheck_cli.project.intent_specs import FORMS
    from gradcheck_cli.project.rule_pages import find
    from gradcheck_cli.project.rule_pages import rules as pages
    from gradcheck_cli.report.rule_page import family, intent, page

    if all_rules:
        typer.echo(listing(), nl=False)
        return
    if rule is None:
        raise UsageError("name a rule, as in `cgcheck explain gradient-mismatch`, or use --list")
    width = shutil.get_terminal_size((80, 24)).columns
    if rule in FORMS:
        typer.echo(intent(rule, width), nl=False)
        return
    own = [each for each in pages().values() if each.family == rule]
    typer.echo(family(rule, own, width) if own else page(find(rule), width), nl=False)


def rules() -> None:
    """List all rules by family."""
    typer.echo(listing(), nl=False)


def listing() -> str:
    """Rules under the heading of their family; summaries wrap to 80 columns."""
    from itertools import groupby

    from gradcheck_cli.project.rule_pages import rules as pages
    from gradcheck_cli.report.rule_page import listed

    families = groupby(pages().values(), lambda rule: rule.family)
    lines = [line for name, own in families for line in ("", name, *listed(list(own), _NARROW))]
    return "\n".join(lines[1:]) + "\n"
