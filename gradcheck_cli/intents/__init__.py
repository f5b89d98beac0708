"""Declared deviations, each checked by a law of its own, as one literal tuple."""

from __future__ import annotations

from gradcheck_cli.intents.clipped import CLIPPED
from gradcheck_cli.intents.intent import Intent
from gradcheck_cli.intents.safe_at import SAFE_AT
from gradcheck_cli.intents.scaled import SCALED
from gradcheck_cli.intents.straight_through import STRAIGHT_THROUGH
from gradcheck_cli.intents.subgradient import SUBGRADIENT
from gradcheck_cli.intents.surrogate import SURROGATE
from gradcheck_cli.intents.zero import ZERO

INTENTS: tuple[Intent, ...] = (
    STRAIGHT_THROUGH, SURROGATE, SCALED, CLIPPED, ZERO, SUBGRADIENT, SAFE_AT,
)  # fmt: skip

__all__ = ["INTENTS", "Intent"]
