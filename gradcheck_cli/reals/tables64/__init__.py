"""What each primitive does with float64 pairs under XLA; `tables` in miniature.

A rule is `(domain, step, values, walk) -> outputs`, for one point: there is no batch axis.
What is missing here is no gap in the truth: flint's balls take over.
"""

from __future__ import annotations

from gradcheck_cli.reals.tables.rule import Rule
from gradcheck_cli.reals.tables64 import choice, control, elementwise, moves, sums

RULES: dict[str, Rule] = {
    **elementwise.TABLE,
    **choice.TABLE,
    **moves.TABLE,
    **sums.TABLE,
    **control.TABLE,
}

__all__ = ["RULES"]
