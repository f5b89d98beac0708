"""An operation reads as the framework's users write it."""

from __future__ import annotations

import ast

import jax.numpy as jnp
import pytest

from gradcheck_cli.judge.repair.spelled import along, call, library_in, total, where

X = ast.Name("x", ast.Load())


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (call("tf", "log", X), "tf.math.log(x)"),
        (call("jnp", "sigmoid", X), "jax.nn.sigmoid(x)"),
        (call("torch", "log", X), "torch.log(x)"),
        (along("jnp", "sum", X), "jnp.sum(x, axis=-1, keepdims=True)"),
        (along("torch", "mean", X), "torch.mean(x, dim=-1, keepdim=True)"),
        (along("tf", "mean", X), "tf.reduce_mean(x, axis=-1, keepdims=True)"),
        (total("torch", X, 0), "torch.sum(x, dim=0)"),
        (total("tf", X), "tf.reduce_sum(x)"),
        (where("torch", X, X), "torch.where(x, x, 0.0)"),
        (where("tf", X, X), "tf.where(x, x, tf.zeros_like(x))"),
    ],
)
def test_it_reads_so(node: ast.expr, text: str) -> None:
    assert ast.unparse(node) == text


def test_a_library_has_the_name_that_the_module_gave_it() -> None:
    assert library_in({"np": jnp, "x": 3}) == "np"
    assert library_in({"ast": ast}) is None
