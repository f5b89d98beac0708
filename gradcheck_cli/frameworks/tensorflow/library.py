"""Stable functions of TensorFlow, spelled as one would write them; each is verified before it is shown."""

from __future__ import annotations

import tensorflow as tf

from gradcheck_cli.frameworks.shared.library import Library, Stable

STABLE: tuple[Stable, ...] = (
    Stable(tf.math.softplus, "tf.math.softplus({x})", "ct * tf.math.sigmoid({x})"),
    Stable(lambda x: -tf.math.log_sigmoid(-x), "-tf.math.log_sigmoid(-{x})", "ct * tf.math.sigmoid({x})"),
    Stable(tf.math.sigmoid, "tf.math.sigmoid({x})", "ct * tf.math.sigmoid({x}) * tf.math.sigmoid(-{x})"),
    Stable(tf.math.log_sigmoid, "tf.math.log_sigmoid({x})", "ct * tf.math.sigmoid(-{x})"),
    Stable(lambda x: tf.math.sigmoid(-x), "tf.math.sigmoid(-{x})", "-ct * tf.math.sigmoid({x}) * tf.math.sigmoid(-{x})"),
    Stable(tf.math.tanh, "tf.math.tanh({x})", "ct / tf.math.square(tf.math.cosh({x}))"),
    Stable(tf.math.log1p, "tf.math.log1p({x})", "ct / (1 + {x})"),
    Stable(tf.math.expm1, "tf.math.expm1({x})", "ct * tf.math.exp({x})"),
    Stable(tf.math.asinh, "tf.math.asinh({x})", "ct / tf.math.sqrt(1 + {x} * {x})"),
    Stable(lambda x: tf.math.reduce_logsumexp(x, -1), "tf.math.reduce_logsumexp({x}, -1)", "ct * tf.nn.softmax({x})", True),
    Stable(tf.nn.softmax, "tf.nn.softmax({x})", "tf.nn.softmax({x}) * (ct - tf.reduce_sum(ct * tf.nn.softmax({x}), -1, keepdims=True))", True),
    Stable(tf.nn.log_softmax, "tf.nn.log_softmax({x})", "ct - tf.nn.softmax({x}) * tf.reduce_sum(ct, -1, keepdims=True)", True),
)  # fmt: skip

LIBRARY = Library(STABLE, {"tf": tf})
