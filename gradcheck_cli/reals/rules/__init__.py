"""What each primitive means, one file a law; together they are `RULES`.

A rule is `(domain, step, values, walk) -> outputs`. Values carry a leading
batch axis. Adding a primitive is one row in `facts`, and its function in a domain or, where the
function is not enough, a rule in the file of its law.
"""

from __future__ import annotations

from gradcheck_cli.reals.rules import (
    by_name,
    control,
    conversion,
    factor,
    fourier,
    indexing,
    linear,
    structure,
    window,
)
from gradcheck_cli.reals.rules.rule import Rule

RULES: dict[str, Rule] = {
    **by_name.TABLE,
    **conversion.TABLE,
    **structure.TABLE,
    **indexing.TABLE,
    **linear.TABLE,
    **factor.TABLE,
    **fourier.TABLE,
    **window.TABLE,
    **control.TABLE,
}

__all__ = ["RULES", "Rule"]
