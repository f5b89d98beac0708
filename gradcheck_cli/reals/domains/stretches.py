"""Float64 pairs as wide as a stretch of an argument: what changes course inside it is in doubt.

Where every comparison is decided and no step function steps, a program is one smooth function
of its argument, and derivatives say how far it can move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from gradcheck_cli.reals.domains.balls64 import Balls64
from gradcheck_cli.reals.domains.pairs import Pair, exact
from gradcheck_cli.reals.tables.rule import Rule
from gradcheck_cli.reals.tri import UNKNOWN

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_STEPS = ("ceil", "floor", "round", "sign")


class Stretches(Balls64):
    """See `Balls64`."""

    @property
    def rules(self) -> Mapping[str, Rule]:
        from gradcheck_cli.reals.tables64 import RULES

        return {
            **RULES,
            **{name: _decided(RULES[name]) for name in _COMPARISONS},
            **{name: _still(RULES[name]) for name in _STEPS},
        }


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
