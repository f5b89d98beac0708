"""Graph-mode gradient overrides."""
import tensorflow as tf


@tf.RegisterGradient("RunningTotal")
def _running_total_grad(op, dy):
    axis = op.inputs[1]
    flip = not op.get_attr("reverse")
    return [tf.cumsum(dy, axis=axis, reverse=flip), None]


@tf.RegisterGradient("ClassProbabilities")
def _class_probabilities_grad(op, dy):
    p = op.outputs[0]
    return p * (dy - tf.reduce_sum(dy * p, axis=-1, keepdims=True))


@tf.function
def running_total(x, axis=-1, exclusive=False, reverse=False):
    """Cumulative sum along `axis`.

    With ``exclusive=True`` the i-th entry leaves out the i-th summand, with
    ``reverse=True`` the sum runs from the end.
    """
    graph = tf.compat.v1.get_default_graph()
    with graph.gradient_override_map({"Cumsum": "RunningTotal"}):
        return tf.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse)


@tf.function
def class_probabilities(logits):
    """Softmax over the last axis of (batch, classes) logits."""
    with tf.compat.v1.get_default_graph().gradient_override_map(
        {"Softmax": "ClassProbabilities"}
    ):
        return tf.nn.softmax(logits)
