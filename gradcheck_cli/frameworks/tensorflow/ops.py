"""TensorFlow operations that tf2jax lacks, as JAX has them: those of rules, and of functions they use.

Most are what TensorFlow's own gradients are made of, which appear where a rule uses a tape, and
which users call by `tf.raw_ops`. One line an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from gradcheck_cli.frameworks.tensorflow.private_api import tf2jax_operations

Function = Callable[..., Any]


def _elu_grad(gradients: Any, outputs: Any) -> Any:
    return jnp.where(outputs < 0, gradients * (outputs + 1), gradients)


def _relu6_grad(gradients: Any, features: Any) -> Any:
    return jnp.where((features > 0) & (features < 6), gradients, 0)


def _zeroed(x: Any, product: Any) -> Any:
    """TensorFlow's `x · …` that is 0 where x is."""
    return jnp.where(x == 0, jnp.zeros_like(product), product)


def _xlogy(x: Any, y: Any) -> Any:
    return _zeroed(x, x * jnp.log(jnp.where(x == 0, 1, y)))


def _xlog1py(x: Any, y: Any) -> Any:
    return _zeroed(x, x * jnp.log1p(jnp.where(x == 0, 0, y)))


def _xdivy(x: Any, y: Any) -> Any:
    return _zeroed(x, x / jnp.where(x == 0, 1, y))


def _cross_entropy(logits: Any, labels: Any) -> Any:
    log_p = jax.nn.log_softmax(logits)
    return -jnp.sum(labels * log_p, -1), jnp.exp(log_p) - labels


def _unravelled(axes: Any) -> Any:
    return None if np.size(axes) == 0 else tuple(np.atleast_1d(np.asarray(axes)).tolist())


def _summed_axes(first: Any, second: Any) -> Any:
    """Over which axes the gradients of two broadcast shapes are summed."""
    one, other = (
        np.atleast_1d(np.asarray(first)).tolist(),
        np.atleast_1d(np.asarray(second)).tolist(),
    )
    rank = max(len(one), len(other))
    one, other = [1] * (rank - len(one)) + one, [1] * (rank - len(other)) + other
    pairs = list(enumerate(zip(one, other, strict=True)))
    return (
        np.array([k for k, (a, b) in pairs if (a == 1 and b != 1) or k < rank - np.size(first)], np.int32),
        np.array([k for k, (a, b) in pairs if (b == 1 and a != 1) or k < rank - np.size(second)], np.int32),
    )  # fmt: skip


def _diagonal(x: Any, offset: Any, _: Any) -> Any:
    return jnp.diagonal(x, int(np.asarray(offset)), -2, -1)


_SIMPLE: dict[str, Function] = {
    "Acos": jnp.arccos,
    "Asin": jnp.arcsin,
    "Atan": jnp.arctan,
    "AccumulateNV2": lambda *xs: sum(xs[1:], xs[0]),
    "BesselI0": special.i0,
    "BesselI1": special.i1,
    "Betainc": special.betainc,
    "BroadcastGradientArgs": _summed_axes,
    "Cross": jnp.cross,
    "EluGrad": _elu_grad,
    "Expint": special.expi,
    "InvGrad": lambda y, dy: -dy * y * y,
    "IsInf": jnp.isinf,
    "IsNan": jnp.isnan,
    "LinSpace": lambda start, stop, num: jnp.linspace(start, stop, int(num)),
    "MatrixDiagPartV3": _diagonal,
    "Mod": jnp.fmod,
    "Ndtri": special.ndtri,
    "Polygamma": special.polygamma,
    "ReciprocalGrad": lambda y, dy: -dy * y * y,
    "Relu6Grad": _relu6_grad,
    "ReluGrad": lambda gradients, features: jnp.where(features > 0, gradients, 0),
    "Rint": jnp.round,
    "RsqrtGrad": lambda y, dy: dy * -0.5 * y * y * y,
    "Selu": jax.nn.selu,
    "SigmoidGrad": lambda y, dy: dy * y * (1 - y),
    "Snapshot": lambda x: x,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SoftplusGrad": lambda gradients, features: gradients * jax.nn.sigmoid(features),
    "Softsign": lambda x: x / (1 + jnp.abs(x)),
    "SoftsignGrad": lambda gradients, x: gradients / jnp.square(1 + jnp.abs(x)),
    "Spence": special.spence,
    "SqrtGrad": lambda y, dy: dy * 0.5 / y,
    "TanhGrad": lambda y, dy: dy * (1 - y * y),
    "TruncateMod": jnp.fmod,
    "Xdivy": _xdivy,
    "Xlog1py": _xlog1py,
    "Xlogy": _xlogy,
    "Zeta": special.zeta,
}


# -- with attributes ----------------------------------------------------------------


def _leaky_relu_grad(proto: Any) -> Function:
    alpha = proto.attr["alpha"].f
    return lambda gradients, features: jnp.where(features > 0, gradients, alpha * gradients)


def _bias_add_grad(proto: Any) -> Function:
    first = proto.attr["data_format"].s == b"NCHW"

    def summed(dy: Any) -> Any:
        channel = 1 if first else dy.ndim - 1
        return jnp.sum(dy, tuple(axis for axis in range(dy.ndim) if axis != channel))

    return summed


def _matrix_inverse(proto: Any) -> Function:
    adjoint = proto.attr["adjoint"].b
    return lambda x: jnp.linalg.inv(jnp.conj(jnp.swapaxes(x, -1, -2)) if adjoint else x)


def _matrix_solve(proto: Any) -> Function:
    adjoint = proto.attr["adjoint"].b
    return lambda a, b: jnp.linalg.solve(jnp.conj(jnp.swapaxes(a, -1, -2)) if adjoint else a, b)


def _norm(proto: Any) -> Function:
    keep = proto.attr["keep_dims"].b
    return lambda x, axes: jnp.sqrt(jnp.sum(x * x, _unravelled(axes), keepdims=keep))


def _shapes(proto: Any) -> Function:
    return lambda *xs: tuple(np.array(x.shape, np.int32) for x in xs)


def _mirrored(proto: Any) -> Function:
    mode = "reflect" if proto.attr["mode"].s == b"REFLECT" else "symmetric"
    return lambda x, paddings: jnp.pad(x, np.asarray(paddings), mode=mode)


def _conv_filter(proto: Any) -> Function:
    """The pullback of the convolution, which is linear in its filter."""
    from tensorflow.core.framework import node_def_pb2

    forward = node_def_pb2.NodeDef()
    forward.CopyFrom(proto)
    forward.op = "Conv2D"
    convolve = tf2jax_operations().get_parser("Conv2D")(forward)

    def pulled(inputs: Any, sizes: Any, dy: Any) -> Any:
        zeros = jnp.zeros(tuple(np.asarray(sizes).tolist()), dy.dtype)
        _, pull = jax.vjp(lambda kernel: convolve(inputs, kernel), zeros)
        return pull(dy)[0]

    return pulled


def _fake_quantized(proto: Any) -> Function:
    """The quantization as it is documented: the range is moved so that zero is one of its steps."""
    attr = proto.attr
    least = 1.0 if attr["narrow_range"].b else 0.0
    most = 2.0 ** attr["num_bits"].i - 1

    def quantized(x: Any, low: Any, high: Any) -> Any:
        step = (high - low) / (most - least)
        from_low = least - low / step
        zero = jnp.clip(jnp.floor(from_low + 0.5), least, most)
        bottom, top = (least - zero) * step, (most - zero) * step
        clamped = jnp.clip(x, bottom, top)
        return jnp.floor((clamped - bottom) / step + 0.5) * step + bottom

    return quantized


def _fake_quantized_by_attributes(proto: Any) -> Function:
    quantized = _fake_quantized(proto)
    low, high = proto.attr["min"].f, proto.attr["max"].f
    return lambda x: quantized(x, low, high)


_PARSED: dict[str, Callable[[Any], Function]] = {
    "BiasAddGrad": _bias_add_grad,
    "Conv2DBackpropFilter": _conv_filter,
    "EuclideanNorm": _norm,
    "FakeQuantWithMinMaxArgs": _fake_quantized_by_attributes,
    "FakeQuantWithMinMaxVars": _fake_quantized,
    "FakeQuantWithMinMaxVarsPerChannel": _fake_quantized,
    "LeakyReluGrad": _leaky_relu_grad,
    "MatrixDeterminant": lambda proto: jnp.linalg.det,
    "MatrixInverse": _matrix_inverse,
    "MatrixSolve": _matrix_solve,
    "MirrorPad": _mirrored,
    "ShapeN": _shapes,
}


def _scattered(indices: Any, updates: Any, shape: Any) -> Any:
    """Updates added up where indices repeat."""
    zeros = jnp.zeros(tuple(np.asarray(shape).tolist()), updates.dtype)
    return zeros.at[tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))].add(updates)


def _running(function: Function, first: float) -> Callable[[Any], Function]:
    """A running sum or product: `exclusive` of an entry itself, from the end if in `reverse`."""

    def parsed(proto: Any) -> Function:
        exclusive, backwards = proto.attr["exclusive"].b, proto.attr["reverse"].b

        def running(x: Any, axis: Any) -> Any:
            along = int(np.asarray(axis)) % x.ndim
            x = jnp.flip(x, along) if backwards else x
            if exclusive:
                start = jnp.full((*x.shape[:along], 1, *x.shape[along + 1 :]), first, x.dtype)
                x = jnp.concatenate([start, jax.lax.slice_in_dim(x, 0, -1, axis=along)], along)
            result = function(x, along)
            return jnp.flip(result, along) if backwards else result

        return running

    return parsed


# What tf2jax has otherwise than TensorFlow: it keeps the last of the updates for one place, and of
# running sums and products it takes an axis that is counted from the end for the first one.
_CORRECTED: dict[str, Callable[[Any], Function]] = {
    "Cumprod": _running(jnp.cumprod, 1.0),
    "Cumsum": _running(jnp.cumsum, 0.0),
    "ScatterNd": lambda proto: _scattered,
}


def complete(registry: Any) -> None:
    """Teach tf2jax what it lacks and what it has otherwise; what else it has stays its own."""
    registry.update(_CORRECTED)
    for name, function in _SIMPLE.items():
        registry.setdefault(name, lambda proto, function=function: function)
    for name, parser in _PARSED.items():
        registry.setdefault(name, parser)
