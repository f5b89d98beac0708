"""Declared deviations, each checked by a law of its own, as one literal tuple: the narrowest first."""

from __future__ import annotations

from gradcheck_cli.judge.intents.clipped import CLIPPED
from gradcheck_cli.judge.intents.estimator import ESTIMATOR
from gradcheck_cli.judge.intents.gauge import GAUGE
from gradcheck_cli.judge.intents.intent import Intent
from gradcheck_cli.judge.intents.manifold import MANIFOLD
from gradcheck_cli.judge.intents.safe_at import SAFE_AT
from gradcheck_cli.judge.intents.scaled import SCALED
from gradcheck_cli.judge.intents.straight_through import STRAIGHT_THROUGH
from gradcheck_cli.judge.intents.subgradient import SUBGRADIENT
from gradcheck_cli.judge.intents.surrogate import SURROGATE
from gradcheck_cli.judge.intents.zero import ZERO

INTENTS: tuple[Intent, ...] = (
    SCALED, ZERO, STRAIGHT_THROUGH, SURROGATE, CLIPPED, SUBGRADIENT, SAFE_AT, MANIFOLD,
    GAUGE, ESTIMATOR,
)  # fmt: skip

__all__ = ["INTENTS", "Intent"]
