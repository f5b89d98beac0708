"""The operations that tf2jax is taught: their values and tape gradients are TensorFlow's own, and of known primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.reals.facts import FACTS

pytestmark = [pytest.mark.slow, pytest.mark.needs("tensorflow")]  # imports the framework

Function = Callable[[Any, Any], Any]  # of tensorflow itself, and of a tensor
Case = tuple[tuple[int, ...], Function]

IDS = [0, 0, 1, 3, 3]
ROWS, SEGMENTS = [0, 3, 1, 1], [0, 0, 1, 3]
IMAGE = (2, 6, 5, 3)
VOLUME = (1, 4, 5, 4, 2)
PAIRS = [[0, 0], [1, 0], [0, 2], [0, 0]]


def definite(tf: Any, x: Any) -> Any:
    """A matrix of full rank, well away from those without an inverse."""
    return x @ tf.transpose(x) + 3 * tf.eye(x.shape[0], dtype=x.dtype)


def fixed(tf: Any, *shape: int) -> Any:
    return tf.constant(np.random.default_rng(7).normal(size=shape))


def single(tf: Any, x: Any) -> Any:
    """In the one dtype that an operation knows."""
    return tf.cast(x, tf.float32)


PLACES: dict[str, Case] = {
    "Bincount": ((4,), lambda tf, x: x * tf.raw_ops.Bincount(arr=[1, 2, 2, 0, 7], size=4, weights=tf.constant([0.5, 1, 2, 3, 4], x.dtype))),
    "Bucketize": ((6,), lambda tf, x: x * tf.cast(tf.raw_ops.Bucketize(input=x, boundaries=[-0.5, 0.5]), x.dtype)),
    "CumulativeLogsumexp": ((2, 4), lambda tf, x: tf.math.cumulative_logsumexp(x, -1, reverse=True)),
    "DenseBincount": ((3,), lambda tf, x: x * tf.math.bincount([1, 2, 2, 0, 7], minlength=3, maxlength=3, dtype=x.dtype)),
    "DenseBincount of rows": ((2, 3), lambda tf, x: x * tf.math.bincount([[1, 2, 2], [0, 9, 0]], minlength=3, maxlength=3, axis=-1, binary_output=True, dtype=x.dtype)),
    "DynamicPartition": ((5, 2), lambda tf, x: tf.dynamic_partition(x, [0, 1, 0, 2, 1], 3)[1]),
    "DynamicStitch": ((4, 2), lambda tf, x: tf.dynamic_stitch([[0, 2], [3, 1]], [x[:2], x[2:]])),
    "HistogramFixedWidth": ((5,), lambda tf, x: x * tf.cast(tf.histogram_fixed_width(x, tf.constant([-1.0, 1.0], x.dtype), 5), x.dtype)),
    "InTopKV2": ((3,), lambda tf, x: x * tf.cast(tf.math.in_top_k([0, 1, 3], tf.constant([[3, 1, 2, 0.0], [0, 1, 2, 3], [4, 3, 2, 1]]), 3), x.dtype)),
    "ListDiff": ((2, 3, 2), lambda tf, x: tf.reduce_prod(x, [0, 2])),
    "MirrorPadGrad": ((3, 4), lambda tf, x: tf.pad(x, [[1, 2], [0, 3]], "SYMMETRIC")),
    "ReverseSequence": ((3, 4, 2), lambda tf, x: tf.reverse_sequence(x, [2, 3, 1, 0], seq_axis=0, batch_axis=1)),
    "SelectV2": ((2, 3, 3), lambda tf, x: tf.where([[True, False, True], [False, True, True], [True, True, False]], x * x, x)),
    "SegmentMax": ((5, 2), lambda tf, x: tf.math.segment_max(x, IDS)),
    "SegmentMean": ((5, 2), lambda tf, x: tf.math.segment_mean(x, IDS)),
    "SegmentMin": ((5, 2), lambda tf, x: tf.math.segment_min(x, IDS)),
    "SegmentProd": ((5, 2), lambda tf, x: tf.math.segment_prod(x, IDS)),
    "SegmentSum": ((5, 2), lambda tf, x: tf.math.segment_sum(x, IDS)),
    "SparseSegmentMean": ((5, 2), lambda tf, x: tf.sparse.segment_mean(x, ROWS, SEGMENTS)),
    "SparseSegmentMeanWithNumSegments": ((5, 2), lambda tf, x: tf.sparse.segment_mean(x, ROWS, SEGMENTS, num_segments=6)),
    "SparseSegmentSqrtN": ((5, 2), lambda tf, x: tf.sparse.segment_sqrt_n(x, ROWS, SEGMENTS)),
    "SparseSegmentSqrtNWithNumSegments": ((5, 2), lambda tf, x: tf.sparse.segment_sqrt_n(x, ROWS, SEGMENTS, num_segments=6)),
    "SparseSegmentSum": ((5, 2), lambda tf, x: tf.sparse.segment_sum(x, ROWS, SEGMENTS)),
    "SparseSegmentSumWithNumSegments": ((5, 2), lambda tf, x: tf.sparse.segment_sum(x, ROWS, SEGMENTS, num_segments=6)),
    "SparseTensorDenseMatMul": ((3,), lambda tf, x: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 0], [2, 2]], x, [3, 4]), fixed(tf, 2, 3), adjoint_a=True, adjoint_b=True)),
    "SparseToDense": ((3,), lambda tf, x: tf.raw_ops.SparseToDense(sparse_indices=[[0, 1], [1, 0], [2, 2]], output_shape=[3, 4], sparse_values=x, default_value=tf.constant(0.5, x.dtype))),
    "StridedSliceGrad": ((4, 5, 2), lambda tf, x: x[1:, ::-2, tf.newaxis, -1]),
    "TensorScatterAdd": ((5, 2), lambda tf, x: tf.tensor_scatter_nd_add(x, [[0], [2], [0]], x[:3] ** 2)),
    "TensorScatterMax": ((5, 2), lambda tf, x: tf.tensor_scatter_nd_max(x, [[0], [2], [4]], x[1:4] ** 2)),
    "TensorScatterMin": ((5, 2), lambda tf, x: tf.tensor_scatter_nd_min(x, [[0], [2], [4]], x[1:4] ** 2)),
    "TensorScatterSub": ((5, 2), lambda tf, x: tf.tensor_scatter_nd_sub(x, [[0, 1], [2, 0], [0, 1]], x[:3, 0])),
    "Unique": ((5,), lambda tf, x: x * tf.cast(tf.unique([3, 1, 3, 2, 1])[1], x.dtype)),
    "UniqueWithCounts": ((3,), lambda tf, x: x * tf.cast(tf.unique_with_counts([3, 1, 3, 2, 1])[2], x.dtype)),
    "UnsortedSegmentMax": ((5, 2), lambda tf, x: tf.math.unsorted_segment_max(x, [2, 0, 1, 0, -1], 3)),
    "UnsortedSegmentMin, empty": ((5, 2), lambda tf, x: tf.math.unsorted_segment_min(x, [2, 0, 1, 0, -1], 4)),
    "Where": ((4, 3), lambda tf, x: tf.repeat(tf.boolean_mask(x, [True, False, True, True]), [1, 0, 2], axis=0)),
}  # fmt: skip

MATRICES: dict[str, Case] = {
    "BatchMatMul": ((2, 3, 4), lambda tf, x: tf.raw_ops.BatchMatMul(x=x, y=fixed(tf, 2, 3, 4), adj_y=True)),
    "BatchMatMulV3": ((2, 3, 4), lambda tf, x: tf.raw_ops.BatchMatMulV3(x=x, y=fixed(tf, 2, 3, 2), Tout=x.dtype, adj_x=True)),
    "CholeskyGrad": ((3, 3), lambda tf, x: tf.raw_ops.CholeskyGrad(l=tf.linalg.cholesky(definite(tf, x)), grad=tf.linalg.band_part(fixed(tf, 3, 3), -1, 0))),
    "Diag": ((2, 3), lambda tf, x: tf.linalg.tensor_diag(x)),
    "DiagPart": ((2, 3, 2, 3), lambda tf, x: tf.linalg.tensor_diag_part(x)),
    "LogMatrixDeterminant": ((2, 4, 4), lambda tf, x: tf.stack(tf.linalg.slogdet(x))),
    "Lu": ((2, 4, 4), lambda tf, x: tf.linalg.lu_solve(*tf.linalg.lu(x), fixed(tf, 2, 4, 1))),
    "Lu, its permutation": ((4, 4), lambda tf, x: tf.gather(x, tf.linalg.lu(x, output_idx_type=tf.int64)[1])),
    "MatrixDiag": ((2, 3), lambda tf, x: tf.raw_ops.MatrixDiag(diagonal=x)),
    "MatrixDiagPart": ((2, 3, 4), lambda tf, x: tf.raw_ops.MatrixDiagPart(input=x)),
    "MatrixDiagPartV2": ((2, 3, 4), lambda tf, x: tf.raw_ops.MatrixDiagPartV2(input=x, k=[-2, 1], padding_value=tf.constant(0.5, x.dtype))),
    "MatrixDiagPartV3": ((2, 3, 4), lambda tf, x: tf.linalg.diag_part(x, k=(-2, 1), padding_value=tf.constant(0.5, x.dtype))),
    "MatrixDiagPartV3, left": ((4, 3), lambda tf, x: tf.linalg.diag_part(x, k=(-1, 2), align="LEFT_RIGHT")),
    "MatrixDiagV2": ((2, 3), lambda tf, x: tf.raw_ops.MatrixDiagV2(diagonal=x, k=1, num_rows=-1, num_cols=-1, padding_value=tf.constant(0.5, x.dtype))),
    "MatrixDiagV3": ((2, 3, 3), lambda tf, x: tf.linalg.diag(x, k=(-1, 1), align="LEFT_RIGHT")),
    "MatrixDiagV3 of a shape": ((2, 3), lambda tf, x: tf.linalg.diag(x, k=-1, num_rows=4, num_cols=3, padding_value=tf.constant(0.5, x.dtype))),
    "MatrixSetDiag": ((2, 3), lambda tf, x: tf.raw_ops.MatrixSetDiag(input=fixed(tf, 2, 3, 4), diagonal=x)),
    "MatrixSetDiagV2": ((2, 3), lambda tf, x: tf.raw_ops.MatrixSetDiagV2(input=fixed(tf, 2, 3, 4), diagonal=x, k=1)),
    "MatrixSetDiagV3": ((2, 3), lambda tf, x: tf.linalg.set_diag(fixed(tf, 3, 4), x, k=(0, 1))),
    "MatrixSolveLs": ((4, 2), lambda tf, x: tf.linalg.lstsq(x, fixed(tf, 4, 1), l2_regularizer=0.3)),
    "MatrixSolveLs, wide": ((2, 4), lambda tf, x: tf.linalg.lstsq(x, fixed(tf, 2, 1))),
    "TridiagonalMatMul": ((3, 4), lambda tf, x: tf.linalg.tridiagonal_matmul(x, fixed(tf, 4, 2))),
    "TridiagonalSolve": ((3, 4), lambda tf, x: tf.linalg.tridiagonal_solve(x, fixed(tf, 4, 2))),
}  # fmt: skip

WINDOWS: dict[str, Case] = {
    "AvgPool, NHWC": (IMAGE, lambda tf, x: tf.nn.avg_pool2d(x, [3, 2], [2, 1], "SAME")),
    "AvgPool3D": (VOLUME, lambda tf, x: tf.nn.avg_pool3d(single(tf, x), [2, 2, 3], [1, 2, 2], "SAME")),
    "Conv2D, by its filter": ((2, 2, 3, 4), lambda tf, x: tf.nn.conv2d(fixed(tf, *IMAGE), x, [2, 1], PAIRS)),
    "Conv2D, explicit": (IMAGE, lambda tf, x: tf.nn.conv2d(x, fixed(tf, 2, 2, 3, 4), [2, 1], PAIRS)),
    "Conv3D": (VOLUME, lambda tf, x: tf.nn.conv3d(x, fixed(tf, 2, 2, 1, 2, 3), [1, 2, 1, 1, 1], "SAME")),
    "Conv3D, by its filter": ((2, 2, 1, 2, 3), lambda tf, x: tf.nn.conv3d(fixed(tf, *VOLUME), x, [1, 1, 2, 1, 1], "VALID")),
    "DepthToSpace": ((2, 2, 3, 8), lambda tf, x: tf.nn.depth_to_space(x, 2)),
    "DepthwiseConv2dNative": (IMAGE, lambda tf, x: tf.nn.depthwise_conv2d(x, fixed(tf, 2, 3, 3, 2), [1, 2, 2, 1], "SAME")),
    "DepthwiseConv2dNative, by its filter": ((2, 3, 3, 2), lambda tf, x: tf.nn.depthwise_conv2d(fixed(tf, *IMAGE), x, [1, 1, 1, 1], "VALID")),
    "Dilation2D": (IMAGE, lambda tf, x: tf.nn.dilation2d(x, fixed(tf, 2, 2, 3), [1, 2, 1, 1], "SAME", "NHWC", [1, 1, 2, 1])),
    "Dilation2D, by its filter": ((2, 2, 3), lambda tf, x: tf.nn.dilation2d(fixed(tf, *IMAGE), x, [1, 1, 1, 1], "VALID", "NHWC", [1, 1, 1, 1])),
    "ExtractImagePatches": (IMAGE, lambda tf, x: tf.image.extract_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 2, 1, 1], "SAME")),
    "FusedBatchNormGradV3": (IMAGE, lambda tf, x: tf.compat.v1.nn.fused_batch_norm(single(tf, x), tf.constant([0.5, 1, 2]), tf.ones(3), epsilon=0.1)[0]),
    "FusedBatchNormGradV3, not training": ((3,), lambda tf, x: tf.compat.v1.nn.fused_batch_norm(single(tf, fixed(tf, *IMAGE)), single(tf, x), tf.ones(3), tf.zeros(3), tf.constant([0.5, 1, 2]), 0.1, is_training=False)[0]),
    "LRN": ((2, 2, 3, 6), lambda tf, x: tf.nn.local_response_normalization(single(tf, x), 2, 0.5, 0.7, 0.6)),
    "MaxPool, explicit": (IMAGE, lambda tf, x: tf.nn.max_pool2d(single(tf, x), [3, 3], [2, 1], PAIRS)),
    "MaxPool3D": (VOLUME, lambda tf, x: tf.nn.max_pool3d(single(tf, x), [2, 2, 3], [1, 2, 2], "SAME")),
    "MaxPoolV2": (IMAGE, lambda tf, x: tf.raw_ops.MaxPoolV2(input=x, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")),
    "MaxPoolWithArgmax": (IMAGE, lambda tf, x: tf.nn.max_pool_with_argmax(x, [3, 2], [2, 1], "SAME")[0]),
    "MaxPoolWithArgmax, its places": ((2, 3, 3, 3), lambda tf, x: x * tf.cast(tf.nn.max_pool_with_argmax(fixed(tf, *IMAGE), [3, 2], [2, 2], "SAME", include_batch_in_index=True)[1], x.dtype)),
    "SpaceToDepth": ((2, 4, 6, 3), lambda tf, x: tf.nn.space_to_depth(x, 2)),
}  # fmt: skip


def scaled(method: str, antialias: bool) -> Case:
    return IMAGE, lambda tf, x: tf.image.resize(single(tf, x), [9, 3], method, antialias=antialias)


def resized(method: str, corners: bool) -> Case:
    """As TensorFlow 1 had it: nothing is half a pixel away."""
    return IMAGE, lambda tf, x: tf.compat.v1.image.resize(single(tf, x), [9, 3], method, corners)


BOXES = [[0.1, 0.2, 0.8, 0.9], [0.9, -0.3, 0.2, 0.7]]
IMAGES: dict[str, Case] = {
    "AdjustContrastv2": (IMAGE, lambda tf, x: tf.image.adjust_contrast(single(tf, x), 1.7)),
    "CropAndResize": (IMAGE, lambda tf, x: tf.image.crop_and_resize(single(tf, x), BOXES, [1, 0], [3, 4], extrapolation_value=0.5)),
    "CropAndResize, by its boxes": ((2, 4), lambda tf, x: tf.image.crop_and_resize(single(tf, fixed(tf, *IMAGE)), single(tf, tf.constant(BOXES, x.dtype) + x / 50), [1, 0], [3, 1])),
    "CropAndResize, nearest": (IMAGE, lambda tf, x: tf.image.crop_and_resize(single(tf, x), BOXES, [1, 0], [3, 4], method="nearest")),
    "HSVToRGB": ((4, 3), lambda tf, x: tf.image.hsv_to_rgb(tf.sigmoid(x))),
    "RGBToHSV": ((4, 3), lambda tf, x: tf.image.rgb_to_hsv(tf.sigmoid(x))),
    **{f"Resize, {method}, {corners}": resized(method, corners) for method in ("bilinear", "bicubic", "nearest", "area") for corners in (True, False)},
    **{f"Resize, {method}": scaled(method, False) for method in ("bilinear", "bicubic", "nearest")},
    **{f"ScaleAndTranslate, {method}, {smooth}": scaled(method, smooth) for method in ("lanczos3", "lanczos5", "gaussian", "mitchellcubic") for smooth in (True, False)},
    **{f"ScaleAndTranslate, {method}": scaled(method, True) for method in ("bilinear", "bicubic")},
}  # fmt: skip

NUMBERS: dict[str, Case] = {
    "IgammaGradA": ((4,), lambda tf, x: tf.math.igamma(tf.exp(x), tf.exp(x) + 1)),
    "Inv": ((4,), lambda tf, x: tf.raw_ops.Inv(x=x)),
    "Polygamma": ((4,), lambda tf, x: tf.math.digamma(tf.exp(x))),
    "RandomGammaGrad": ((4,), lambda tf, x: tf.raw_ops.RandomGammaGrad(alpha=tf.exp(x), sample=tf.exp(x / 2))),
    "SeluGrad": ((6,), lambda tf, x: tf.nn.selu(x)),
    "TensorListSetItem": ((4,), lambda tf, x: tf.scan(lambda a, y: a * y, x)),
    "Transpose": ((2, 3), lambda tf, x: tf.tile(x, [2, 3])),
}  # fmt: skip

CASES = {**PLACES, **MATRICES, **WINDOWS, **IMAGES, **NUMBERS}


def point(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(3).normal(size=shape)


def traced(function: Callable[[Any], Any], x: Any) -> Any:
    from gradcheck_cli.frameworks.tensorflow.trace import traced as of_avals

    with jax.enable_x64(True):
        return of_avals(function, [jax.ShapeDtypeStruct(x.shape, x.dtype)], inner_rules=False)


def held_to(function: Callable[[Any], Any], x: Any) -> None:
    """Its trace has the numbers of its eager call, and nothing that has no meaning over the reals."""
    import tensorflow as tf

    want = function(tf.constant(x)).numpy()
    jaxpr = traced(function, x)
    with jax.enable_x64(True):
        (got,) = jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, x)
    close = 1e-5 if tf.float32 in (want.dtype, *dtypes(function, x)) else 1e-9
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=close, atol=close)
    # Which arm of the platform it is, the walk knows.
    assert program_of(jaxpr).primitives() - {"platform_index"} <= set(FACTS)


def dtypes(function: Callable[[Any], Any], x: Any) -> set[Any]:
    """Those of all that is computed on the way."""
    import tensorflow as tf

    graph = tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec(x.shape, x.dtype)).graph  # fmt: skip
    return {out.dtype for operation in graph.get_operations() for out in operation.outputs}


@pytest.mark.parametrize("name", CASES)
def test_a_value_is_tensorflows(name: str) -> None:
    import tensorflow as tf

    shape, function = CASES[name]
    held_to(lambda x: function(tf, x), point(shape))


# Operations of which TensorFlow has no gradient, and loops, whose gradients are lists that grow.
WITHOUT = {
    "AdjustContrastv2", "Bincount", "CholeskyGrad", "HSVToRGB", "Lu", "Lu, its permutation", "RandomGammaGrad", "SparseToDense",
    "TensorListSetItem", "UnsortedSegmentMin, empty",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in WITHOUT and "area" not in name]
)
def test_a_tapes_gradient_is_tensorflows(name: str) -> None:
    import tensorflow as tf

    shape, function = CASES[name]

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(tf, x)
            weights = tf.sin(tf.cumsum(tf.ones_like(tf.reshape(y, [-1]))))
            total = tf.reduce_sum(tf.reshape(y, [-1]) * weights)
        return tf.convert_to_tensor(tape.gradient(total, x))

    held_to(gradient, point(shape))


def test_second_order_of_a_pool_is_tensorflows() -> None:
    import tensorflow as tf

    def twice(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.nn.max_pool2d(x, 2, 2, "VALID") ** 3)
            total = tf.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(total, x)

    held_to(twice, point((1, 4, 4, 2)))
