"""What shapes allow to be changed, read off the traces alone."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.adequacy.adequacy import adequacy
from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.changes import primal_scene
from gradcheck_cli.adequacy.possible import possible, reached, richness
from gradcheck_cli.adequacy.reached import one_sided
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
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


def masked(ids: Any) -> Any:
    """A sum of the rows whose place is one of three."""

    def function(x: Any, ids: Any) -> Any:
        return jnp.where((ids < 3)[:, None], x, 2 * x).sum(0)

    signature = (("x", Leaf("x", (3, 2), "test")), ("ids", Fixed(np.array(ids), "i32[3]", "test")))
    return gradient_of(function).fit(Signature(signature), "float32")


def test_a_branch_that_a_table_closes_is_reached_by_another_table() -> None:
    low, mixed = masked([0, 2, 0]), masked([0, 2, 3])
    scene = primal_scene(low)
    assert scene is not None
    closed = list(one_sided(scene, [np.ones((4, 3, 2))]))
    assert [change.table for change in closed] == ["ids"]
    assert reached(closed, low) == []
    assert reached(closed, mixed) == closed
