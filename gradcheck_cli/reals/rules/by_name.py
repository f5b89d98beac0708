"""Rules that follow from a primitive's law and the name of its function, and those that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.reals.facts import FACTS, Facts
from gradcheck_cli.reals.rules import comparison, elementwise, reduction
from gradcheck_cli.reals.rules.rule import Rule


def derived(facts: Mapping[str, Facts]) -> dict[str, Rule]:
    """Rules of primitives that a row of `facts` describes whole."""
    return {**elementwise.rules(facts), **comparison.rules(facts), **reduction.rules(facts)}


TABLE: dict[str, Rule] = {
    **derived(FACTS),
    **elementwise.TABLE,
    **comparison.TABLE,
    **reduction.TABLE,
}
