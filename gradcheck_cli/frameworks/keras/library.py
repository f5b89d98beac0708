"""Stable functions of `keras.ops`, spelled as one would write them; each is verified before it is shown."""

from __future__ import annotations

import keras
from keras import ops

from gradcheck_cli.frameworks.shared.library import Library, Stable
from gradcheck_cli.frameworks.shared.stand_in_function import stand_in_function

STABLE: tuple[Stable, ...] = (
    Stable(ops.softplus, "ops.softplus({x})", "ops.multiply(ct, ops.sigmoid({x}))"),
    Stable(lambda x: -ops.log_sigmoid(-x), "-ops.log_sigmoid(-{x})", "ops.multiply(ct, ops.sigmoid({x}))"),
    Stable(ops.sigmoid, "ops.sigmoid({x})", "ct * ops.sigmoid({x}) * ops.sigmoid(-{x})"),
    Stable(ops.log_sigmoid, "ops.log_sigmoid({x})", "ct * ops.sigmoid(-{x})"),
    Stable(lambda x: ops.sigmoid(-x), "ops.sigmoid(-{x})", "-ct * ops.sigmoid({x}) * ops.sigmoid(-{x})"),
    Stable(ops.tanh, "ops.tanh({x})", "ct / ops.square(ops.cosh({x}))"),
    Stable(ops.log1p, "ops.log1p({x})", "ct / (1 + {x})"),
    Stable(ops.expm1, "ops.expm1({x})", "ct * ops.exp({x})"),
    Stable(lambda x: ops.logsumexp(x, -1), "ops.logsumexp({x}, -1)", "ct * ops.softmax({x})", True),
    Stable(ops.softmax, "ops.softmax({x})", "ops.softmax({x}) * (ct - ops.sum(ct * ops.softmax({x}), -1, keepdims=True))", True),
    Stable(ops.log_softmax, "ops.log_softmax({x})", "ct - ops.softmax({x}) * ops.sum(ct, -1, keepdims=True)", True),
)  # fmt: skip

STAND_IN = stand_in_function(ops.tanh, ops.mean)  # for what a factory takes

LIBRARY = Library(STABLE, {"ops": ops, "keras": keras})
