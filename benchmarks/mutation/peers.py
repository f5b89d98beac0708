"""The same mutants under the checkers that the frameworks bring: is a fault seen?

Each is called as its documentation shows, with ordinary random inputs of the right shapes.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

_TF_TOLERANCE = 1e-3  # of compute_gradient's two Jacobians, as TensorFlow's own tests have it


def inputs(shapes: list[tuple[int, ...]], dtype: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def jax_peers() -> dict[str, Callable[..., bool]]:
    import jax
    from jax.test_util import check_grads

    def run(dtype: str) -> Callable[..., bool]:
        def seen(function: Any, shapes: list[tuple[int, ...]]) -> bool:
            with jax.enable_x64(dtype == "float64"):
                args = tuple(jax.numpy.asarray(a) for a in inputs(shapes, dtype))
                return _raises(lambda: check_grads(function, args, order=1, modes=["rev"]))

        return seen

    return {f"check_grads {dtype}": run(dtype) for dtype in ("float32", "float64")}


def torch_peers() -> dict[str, Callable[..., bool]]:
    import torch

    def run(fast: bool) -> Callable[..., bool]:
        def seen(cls: Any, shapes: list[tuple[int, ...]]) -> bool:
            args = [torch.tensor(a, requires_grad=True) for a in inputs(shapes, "float64")]
            return _raises(lambda: torch.autograd.gradcheck(cls.apply, args, fast_mode=fast))

        return seen

    return {"gradcheck": run(False), "gradcheck fast": run(True)}


def tensorflow_peers() -> dict[str, Callable[..., bool]]:
    import tensorflow as tf

    def run(dtype: str) -> Callable[..., bool]:
        def seen(function: Any, shapes: list[tuple[int, ...]]) -> bool:
            args = [tf.constant(a) for a in inputs(shapes, dtype)]

            def compare() -> None:
                pairs = zip(*tf.test.compute_gradient(function, args), strict=True)
                for theirs, numeric in pairs:
                    np.testing.assert_allclose(theirs, numeric, rtol=_TF_TOLERANCE, atol=_TF_TOLERANCE)  # fmt: skip

            return _raises(compare)

        return seen

    return {f"compute_gradient {dtype}": run(dtype) for dtype in ("float32", "float64")}


PEERS = {"jax": jax_peers, "torch": torch_peers, "tensorflow": tensorflow_peers}


def _raises(check: Callable[[], object]) -> bool:
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            check()
        except Exception:
            return True
    return False
