"""What shapes allow to be changed, read off the traces alone."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from gradcheck_cli.adequacy.adequacy import adequacy
from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.possible import possible, richness
from gradcheck_cli.inputs.signature import Leaf, Signature
from tests.adequacy.test_adequacy import column
from tests.traced import gradient_of, traced


def at(function: Any, *shapes: tuple[int, ...]) -> Any:
    leaves = [(n, Leaf(n, s, "test")) for n, s in zip("xyz", shapes, strict=False)]
    return gradient_of(function).fit(Signature(tuple(leaves)), "float32")


def scaled_norm(x: Any, y: Any) -> Any:
    return y * x / jnp.sqrt((x**2).sum(-1, keepdims=True))


def test_a_batch_leaves_open_less_than_a_row_and_a_row_less_than_a_number() -> None:
    batch, row = richness(at(scaled_norm, (5, 3), (3,))), richness(at(scaled_norm, (3,), (3,)))
    assert batch.degenerate == frozenset()
    assert {kind for _, kind in row.degenerate} == {Kind.AXIS}
    assert (row + batch).degenerate == frozenset()
    assert row + batch == batch + row


def test_a_square_matrix_allows_its_transpose_to_be_dropped() -> None:
    square, long = (richness(at(lambda x: x.T @ x, shape)) for shape in ((3, 3), (3, 4)))
    assert len(square.possible) > len(long.possible)


def test_an_argument_that_idles_as_a_number_moves_as_an_array() -> None:
    def unit(x: Any, y: Any) -> Any:
        return y * x / jnp.sqrt(jnp.sum(x**2))

    idle = [
        change
        for change in adequacy(traced(unit, column(), column(seed=1))).degenerate
        if change.kind is Kind.ARGUMENT
    ]
    assert [change.key.name for change in idle] == ["x"]
    assert possible(idle, at(unit, (3,), ())) == idle
    assert possible(idle, at(unit, (), ())) == []
