"""Docstrings that say a shape, as specs."""

from __future__ import annotations

import pytest

from gradcheck_cli.infer.docstrings import documented

DOCSTRINGS = {
    "google": ("Args:\n    x: A tensor of shape (batch, dim).\n    y (jax.Array): labels of shape [batch]\n", "f32[batch dim]", "i32[batch]"),
    "numpy": ("Parameters\n----------\nx : array, shape (N, C)\n    Scores.\ny : (N,) array of int\n    Labels.\n", "f32[N C]", "i32[N]"),
    "sphinx": (":param x: the logits, shape ``(n, 3)``\n:param y: boolean mask with shape (n,)\n", "f32[n 3]", "bool[n]"),
    "over lines": ("Args:\n    x: queries,\n        with shape [heads, n, d]\n    y: int, how many\n", "f32[heads n d]", "3"),
    "with leading dimensions": ("Args:\n    x: [..., n] array\n    y: nothing is said\n", "f32[n]", ""),
    "prose": ("x and y are added (slowly), shape does not matter.\n", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("style", DOCSTRINGS)
def test_docstrings_that_say_a_shape(style: str) -> None:
    text, x, y = DOCSTRINGS[style]

    def function(x: object, y: object) -> None: ...

    function.__doc__ = f"Does it.\n\n{text}"
    specs = documented(function, ["x", "y"])
    assert (specs.get("x", ""), specs.get("y", "")) == (x, y)
