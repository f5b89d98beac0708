"""Layers and low-level ops for point-set networks."""

from typing import Callable, Optional, Sequence

import tensorflow as tf

__all__ = [
    "three_nn_interpolate",
    "CosineDense",
    "GatedResidual",
    "make_checkpointed",
    "sign_ste",
    "running_total",
    "zero_safe_prod",
]


# ---------------------------------------------------------------------------
# Feature propagation
# ---------------------------------------------------------------------------


def _with_batch_index(idx):
    """Turns `[B, M]` point ids into `[B, M, 2]` (batch, point) pairs."""
    shape = tf.shape(idx)
    batch = tf.tile(tf.range(shape[0], dtype=idx.dtype)[:, None], [1, shape[1]])
    return tf.stack([batch, idx], axis=-1)


def three_nn_interpolate(features, idx, weight):
    """Interpolates features of known points at query points.

    Args:
      features: float `[B, N, C]`, features of the known points.
      idx: integer `[B, M, K]`, for each query point the ids of its nearest
        known points (usually `K == 3`).
      weight: float `[B, M, K]`, interpolation weights.

    Returns:
      float `[B, M, C]`, `sum_k weight[b, m, k] * features[b, idx[b, m, k]]`.
    """
    idx = tf.convert_to_tensor(idx)

    @tf.custom_gradient
    def _interpolate(features, weight):
        gathered = tf.gather(features, idx, batch_dims=1)  # [B, M, K, C]
        out = tf.einsum("bmkc,bmk->bmc", gathered, weight)

        def grad(dout):
            dweight = tf.einsum("bmkc,bmc->bmk", gathered, dout)
            dfeatures = tf.zeros_like(features)
            for k in range(idx.shape[-1]):
                where = _with_batch_index(idx[..., k])
                update = dout * weight[..., k, None]
                dfeatures += tf.tensor_scatter_nd_update(
                    tf.zeros_like(features), where, update)
            return dfeatures, dweight

        return out, grad

    return _interpolate(features, weight)


# ---------------------------------------------------------------------------
# Layers with variables
# ---------------------------------------------------------------------------


class CosineDense(tf.Module):
    """Dense layer on the cosine between inputs and kernel columns.

    Computes ``scale * <x, w_j> / (|x| |w_j|)`` with smoothed norms
    ``|v| = sqrt(sum(v ** 2) + epsilon)``.

    Args:
      in_features: size of the last axis of the inputs.
      units: number of columns.
      scale: start value of the trainable scale.
      epsilon: smoothing of the norms.
      dtype: dtype of the variables.
    """

    def __init__(self, in_features: int, units: int, scale: float = 10.0,
                 *, epsilon: float = 1e-6, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.epsilon = epsilon
        ramp = tf.range(1, in_features * units + 1, dtype=dtype)
        self.kernel = tf.Variable(
            tf.reshape(tf.sin(ramp), [in_features, units]), name="kernel")
        self.scale = tf.Variable(tf.cast(scale, dtype), name="scale")

    def similarity(self, x):
        @tf.custom_gradient
        def _cosine(x):
            kernel = tf.convert_to_tensor(self.kernel)
            scale = tf.convert_to_tensor(self.scale)
            x_norm = tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True) + self.epsilon)
            k_norm = tf.sqrt(tf.reduce_sum(kernel * kernel, 0, keepdims=True) + self.epsilon)
            x_hat = x / x_norm
            k_hat = kernel / k_norm
            cosine = tf.tensordot(x_hat, k_hat, 1)

            def grad(dy, variables=None):
                dcos = scale * dy
                dx_hat = tf.tensordot(dcos, k_hat, [[-1], [1]])
                dx = (dx_hat - x_hat * tf.reduce_sum(dx_hat * x_hat, -1, keepdims=True)) / x_norm
                flat_x = tf.reshape(x_hat, [-1, tf.shape(x_hat)[-1]])
                flat_d = tf.reshape(dcos, [-1, tf.shape(dcos)[-1]])
                dk_hat = tf.matmul(flat_x, flat_d, transpose_a=True)
                dkernel = (dk_hat - k_hat * tf.reduce_sum(dk_hat * k_hat, 0, keepdims=True)) / k_norm
                dscale = tf.reduce_sum(dy * cosine)
                by_ref = {self.kernel.ref(): dkernel, self.scale.ref(): dscale}
                return dx, [by_ref[v.ref()] for v in (variables or [])]

            return scale * cosine, grad

        return _cosine(x)

    def __call__(self, x):
        return self.similarity(tf.convert_to_tensor(x))


class GatedResidual(tf.Module):
    """Per-channel learned mixture of a skip connection and a branch.

    ``y = g * skip + (1 - g) * branch`` with ``g = sigmoid(logit / temperature)``.
    """

    def __init__(self, channels, init=0.0, temperature=1.0, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.temperature = temperature
        self.logit = tf.Variable(tf.fill([channels], tf.cast(init, dtype)), name="logit")

    def mix(self, skip: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
        """Mixes two tensors of the same shape, channels last."""

        @tf.custom_gradient
        def _mix(skip, branch):
            gate = tf.sigmoid(self.logit / self.temperature)
            out = branch + gate * (skip - branch)

            def grad(dout, variables=None):
                dskip = dout * gate
                dbranch = dout * (1.0 - gate)
                axes = list(range(skip.shape.rank - 1))
                dgate = tf.reduce_sum(dout * (skip - branch), axis=axes)
                dlogit = dgate * gate * (1.0 - gate)
                return (dskip, dbranch), [dlogit] * len(variables or [])

            return out, grad

        return _mix(skip, branch)

    __call__ = mix


def make_checkpointed(block: Callable) -> Callable:
    """Wraps `block` so that its activations are recomputed in the backward pass.

    `block` takes float tensors and returns a tensor or a tuple of tensors; it
    may read trainable variables.
    """

    def checkpointed(*inputs):
        @tf.custom_gradient
        def run(*args):
            outputs = block(*args)

            def grad(*upstream, variables: Optional[Sequence[tf.Variable]] = None):
                variables = list(variables or [])
                with tf.GradientTape() as tape:
                    tape.watch(args)
                    again = tf.nest.flatten(block(*args))
                grads = tape.gradient(
                    again,
                    list(args) + variables,
                    output_gradients=list(upstream),
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
                dargs, dvars = grads[:len(args)], grads[len(args):]
                return (dargs, dvars) if variables else dargs

            return outputs, grad

        return run(*[tf.convert_to_tensor(x) for x in inputs])

    return checkpointed


# ---------------------------------------------------------------------------
# Ops with a registered gradient
# ---------------------------------------------------------------------------


@tf.RegisterGradient("PointLayersClippedSign")
def _clipped_sign_grad(op, grad):
    x = op.inputs[0]
    return tf.where(tf.abs(x) <= 1.0, grad, tf.zeros_like(grad))


@tf.function(autograph=False)
def sign_ste(x):
    """Sign with a straight-through estimator.

    The backward pass hands the gradient on where ``|x| <= 1`` and stops it
    elsewhere (the derivative of hard tanh).
    """
    with tf.compat.v1.get_default_graph().gradient_override_map(
            {"Sign": "PointLayersClippedSign"}):
        return tf.sign(x)


@tf.RegisterGradient("PointLayersRunningTotal")
def _running_total_grad(op, grad):
    axis = op.inputs[1]
    wide = tf.cast(grad, tf.float64)
    total = tf.cumsum(wide, axis=axis, reverse=not op.get_attr("reverse"))
    return tf.cast(total, grad.dtype), None


def running_total(x, axis=-1, exclusive=False, reverse=False):
    """Cumulative sum along `axis` whose gradient is accumulated in float64.

    :param x: float tensor.
    :param axis: the axis to sum along.
    :param exclusive: leave each element out of its own sum.
    :param reverse: sum from the end.
    """

    @tf.function(autograph=False)
    def _forward(x):
        graph = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({"Cumsum": "PointLayersRunningTotal"}):
            return tf.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse)

    return _forward(tf.convert_to_tensor(x))


@tf.RegisterGradient("PointLayersZeroSafeProd")
def _zero_safe_prod_grad(op, grad):
    x, axis = op.inputs
    before = tf.math.cumprod(x, axis=axis, exclusive=True)
    after = tf.math.cumprod(x, axis=axis, exclusive=True, reverse=True)
    if not op.get_attr("keep_dims"):
        grad = tf.expand_dims(grad, axis)
    return grad * before * after, None


def zero_safe_prod(x: tf.Tensor, axis: int = -1, keepdims: bool = False) -> tf.Tensor:
    @tf.function(autograph=False)
    def _forward(x):
        graph = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({"Prod": "PointLayersZeroSafeProd"}):
            return tf.reduce_prod(x, axis=axis, keepdims=keepdims)

    return _forward(tf.convert_to_tensor(x))
