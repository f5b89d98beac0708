"""Results without numbers are refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.refusals import Rejected
from tests.traced import gradient_of


@jax.custom_vjp
def windows(x, kernel):
    return jnp.convolve(x, kernel)[: x.shape[0] - kernel.shape[0]]


windows.defvjp(lambda x, k: (windows(x, k), (x, k)), lambda res, g: res)


@pytest.mark.parametrize(("kernel", "taken"), [((2,), True), ((4,), False)])
def test_a_window_longer_than_its_axis_is_refused(kernel: tuple[int, ...], taken: bool) -> None:
    signature = Signature((("x", Leaf("x", (4,), "")), ("kernel", Leaf("kernel", kernel, ""))))
    if taken:
        assert fitted(gradient_of(windows), signature, "float32").outputs == [(2,)]
    else:
        with pytest.raises(Rejected, match="empty"):
            fitted(gradient_of(windows), signature, "float32")


def test_arrays_that_are_too_large_to_be_made_are_refused() -> None:
    class Huge:
        def fit(self, signature: Signature, dtype: str) -> None:
            raise MemoryError

    gradient: Any = Huge()
    with pytest.raises(Rejected, match="more memory"):
        fitted(gradient, Signature((("x", Leaf("x", (4,), "")),)), "float32")
