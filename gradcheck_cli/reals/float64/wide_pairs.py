"""Float64 pairs as wide as a stretch of an argument: what changes course inside it is in doubt.

Where every comparison is decided and no step function steps, a program is one smooth function
of its argument, and derivatives say how far it can move.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from gradcheck_cli.reals.facts import Law, functions, named
from gradcheck_cli.reals.float64.domain import Balls64
from gradcheck_cli.reals.float64.pairs import Pair, exact
from gradcheck_cli.reals.float64.rules import RULES
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.three_valued import UNKNOWN


def stretches() -> Balls64:
    """A walk over a stretch of the argument."""
    return Balls64(_RULES)


def _decided(rule: Rule) -> Rule:
    def either(domain: Any, step: Any, values: list[Any], walk: Any) -> Any:
        outs = rule(domain, step, values, walk)
        if step.in_avals[0].kind == "f":
            domain.doubt(jnp.asarray(outs[0]) == UNKNOWN)
        return outs

    return either


def _still(rule: Rule) -> Rule:
    def either(domain: Any, step: Any, values: list[Any], walk: Any) -> Any:
        outs = rule(domain, step, values, walk)
        if isinstance(outs[0], Pair):
            domain.doubt(~exact(outs[0]))
        return outs

    return either


_RULES: dict[str, Rule] = {
    **RULES,
    **{name: _decided(RULES[name]) for name in RULES.keys() & functions(Law.COMPARISON)},
    **{name: _still(RULES[name]) for name in RULES.keys() & named(lambda row: row.steps)},
}
