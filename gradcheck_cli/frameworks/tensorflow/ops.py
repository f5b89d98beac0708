"""TensorFlow operations that tf2jax lacks, as JAX has them: those of rules, and of functions they use.

Most are what TensorFlow's own gradients are made of, which appear where a rule uses a tape, and
which users call by `tf.raw_ops`. One line an operation; those of places, matrices, windows and images
have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from gradcheck_cli.frameworks.tensorflow import (
    ops_of_images,
    ops_of_matrices,
    ops_of_places,
    ops_of_windows,
)
from gradcheck_cli.frameworks.tensorflow.ops_of_places import transposed
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


def _selu_grad(gradients: Any, outputs: Any) -> Any:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return gradients * jnp.where(outputs < 0, outputs + scale * alpha, scale)


def _known(at_once: Function, in_jax: Function) -> Function:
    """A shape, or what a shape is made of, stays a number that is known while it is traced."""

    def either(x: Any, *more: Any) -> Any:
        return (at_once if isinstance(x, np.ndarray | np.generic) else in_jax)(x, *more)

    return either


def _selected(which: Any, yes: Any, no: Any) -> Any:
    """One or the other, broadcast as numpy does."""
    known = all(isinstance(part, np.ndarray | np.generic) for part in (which, yes, no))
    return (np if known else jnp).where(which, yes, no)


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
    "IgammaGradA": jax.lax.igamma_grad_a,
    "Inv": lambda x: 1 / x,
    "InvGrad": lambda y, dy: -dy * y * y,
    "IsInf": jnp.isinf,
    "IsNan": jnp.isnan,
    "LinSpace": lambda start, stop, num: jnp.linspace(start, stop, int(num)),
    "Mod": jnp.fmod,
    "Ndtri": special.ndtri,
    "PlaceholderWithDefault": lambda x: x,
    "Polygamma": jax.lax.polygamma,
    "RandomGammaGrad": jax.lax.random_gamma_grad,
    "ReciprocalGrad": lambda y, dy: -dy * y * y,
    "Relu6Grad": _relu6_grad,
    "ReluGrad": lambda gradients, features: jnp.where(features > 0, gradients, 0),
    "Rint": jnp.round,
    "RsqrtGrad": lambda y, dy: dy * -0.5 * y * y * y,
    "Selu": jax.nn.selu,
    "SeluGrad": _selu_grad,
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


def _mirrored_grad(proto: Any) -> Function:
    padded = _mirrored(proto)

    def pulled(dy: Any, paddings: Any) -> Any:
        shape = np.array(dy.shape) - np.asarray(paddings).sum(1)
        return transposed(lambda x: padded(x, paddings), shape, dy)

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
    "EuclideanNorm": _norm,
    "FakeQuantWithMinMaxArgs": _fake_quantized_by_attributes,
    "FakeQuantWithMinMaxVars": _fake_quantized,
    "FakeQuantWithMinMaxVarsPerChannel": _fake_quantized,
    "LeakyReluGrad": _leaky_relu_grad,
    "MatrixDeterminant": lambda proto: jnp.linalg.det,
    "MatrixInverse": _matrix_inverse,
    "MatrixSolve": _matrix_solve,
    "MirrorPad": _mirrored,
    "MirrorPadGrad": _mirrored_grad,
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
                before = function(jax.lax.slice_in_dim(x, 0, -1, axis=along), along)
                result = jnp.concatenate([start, before], along)
            else:
                result = function(x, along)
            return jnp.flip(result, along) if backwards else result

        return running

    return parsed


def _item_set(items: Any, index: Any, item: Any) -> Any:
    return jnp.asarray(items).at[index].set(item)


def _batch_norm(proto: Any) -> Function:
    """With the three outputs that are room for its gradient."""
    normalized = tf2jax_operations().get_parser("FusedBatchNormV2")(proto)

    def with_room(x: Any, scale: Any, *more: Any) -> tuple[Any, ...]:
        y, mean, variance = normalized(x, scale, *more)
        return y, mean, variance, mean, variance, jnp.zeros(0, scale.dtype)

    return with_room


# What tf2jax has otherwise than TensorFlow: it keeps the last of the updates for one place, spreads
# a condition over its last axes as version 1 did, of running sums and products it takes an axis that is counted from the end for the first one, and
# what it moves or finds in numbers that are known is no longer known.
_CORRECTED: dict[str, Callable[[Any], Function]] = {
    "CumulativeLogsumexp": _running(jax.lax.cumlogsumexp, -np.inf),
    "Cumprod": _running(jnp.cumprod, 1.0),
    "Cumsum": _running(jnp.cumsum, 0.0),
    "FusedBatchNormV3": _batch_norm,
    "ScatterNd": lambda proto: _scattered,
    "SelectV2": lambda proto: _selected,
    "TensorListSetItem": lambda proto: _item_set,
    "Transpose": lambda proto: _known(np.transpose, jnp.transpose),
    "Where": lambda proto: _known(np.argwhere, jnp.argwhere),
    **ops_of_images.CORRECTED,
    **ops_of_matrices.CORRECTED,
    **ops_of_places.CORRECTED,
    **ops_of_windows.CORRECTED,
}


def complete(registry: Any) -> None:
    """Teach tf2jax what it lacks and what it has otherwise; what else it has stays its own."""
    registry.update(_CORRECTED)
    for functions in (
        _SIMPLE,
        ops_of_images.FUNCTIONS,
        ops_of_matrices.FUNCTIONS,
        ops_of_places.FUNCTIONS,
    ):
        for name, function in functions.items():
            registry.setdefault(name, lambda proto, function=function: function)
    for parsers in (
        _PARSED,
        ops_of_images.PARSED,
        ops_of_matrices.PARSED,
        ops_of_places.PARSED,
        ops_of_windows.PARSED,
    ):
        for name, parser in parsers.items():
            registry.setdefault(name, parser)
