"""What each primitive does with float64 pairs under XLA; `tables` in miniature.

A rule is `(domain, step, values, walk) -> outputs`, for one point: there is no batch axis.
What is missing here is no gap in the truth: flint's balls take over.
"""

from __future__ import annotations

from gradcheck_cli.reals.float64.rules import choice, control, elementwise, moves, sums
from gradcheck_cli.reals.rules.rule import Rule

RULES: dict[str, Rule] = {
    **elementwise.TABLE,
    **choice.TABLE,
    **moves.TABLE,
    **sums.TABLE,
    **control.TABLE,
}

__all__ = ["RULES"]
