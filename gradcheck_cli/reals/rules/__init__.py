"""What each primitive means, one file a law; together they are `RULES`.

A rule is `(domain, step, values, walk) -> outputs`. Values carry a leading
batch axis. Adding a primitive is one row in `facts`, and its function in a domain or, where the
function is not enough, a rule in the file of its law.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.reals.facts import FACTS, Facts
from gradcheck_cli.reals.rules import (
    comparison,
    control,
    conversion,
    elementwise,
    factor,
    fourier,
    indexing,
    linear,
    reduction,
    structure,
    window,
)
from gradcheck_cli.reals.rules.rule import Rule


def derived(facts: Mapping[str, Facts]) -> dict[str, Rule]:
    """Rules that follow from a primitive's law and the name of its function."""
    return {**elementwise.rules(facts), **comparison.rules(facts), **reduction.rules(facts)}


RULES: dict[str, Rule] = {
    **derived(FACTS),
    **elementwise.TABLE,
    **comparison.TABLE,
    **conversion.TABLE,
    **structure.TABLE,
    **reduction.TABLE,
    **indexing.TABLE,
    **linear.TABLE,
    **factor.TABLE,
    **fourier.TABLE,
    **window.TABLE,
    **control.TABLE,
}

__all__ = ["RULES", "Rule", "derived"]
