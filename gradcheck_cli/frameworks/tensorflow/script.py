"""How a script in TensorFlow is written."""

from __future__ import annotations

from gradcheck_cli.subject.script_style import ScriptStyle

WRITING = ScriptStyle(
    imports=("import tensorflow as tf",),
    array='tf.constant({values}, "{dtype}")',
    gradients=(
        "with tf.GradientTape() as tape:",
        "    tape.watch(leaves)",
        "    outputs = tf.nest.flatten(call(*leaves))",
        "    parts = [[tf.math.real(v), tf.math.imag(v)] if v.dtype.is_complex else [v] for v in outputs]",
        "    outputs = [v for pair in parts for v in pair if v.dtype.is_floating]",
        "pulled = tape.gradient(outputs, leaves, cotangents, tf.UnconnectedGradients.ZERO)",
        "gradients = [tf.cast(g, tf.float64).numpy() for g in pulled]",
        "values = [tf.cast(v, tf.float64).numpy() for v in outputs]",
    ),
    pair="tf.complex({real}, {imag})",
    spellings={"tf.tanh": "tf.tanh", "tf.add": "tf.add"},
)
