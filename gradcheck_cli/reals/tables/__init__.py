"""What each primitive means, one file a law; together they are `RULES`.

A rule is `(domain, step, values, walk) -> outputs`. Values carry a leading
batch axis. Adding a primitive is one line in the table of its law.
"""

from __future__ import annotations

from gradcheck_cli.reals.tables import (
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
from gradcheck_cli.reals.tables.rule import Rule

RULES: dict[str, Rule] = {
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

__all__ = ["RULES", "Rule"]
