"""Axis numbers."""

from __future__ import annotations

import pytest

from tests.clues.source_text.libraries import (
    jnp,
    kinds,
    least_ranks,
    nn,
    ranks,
    read,
    tf,
    torch,
    values,
)


def of_two(x):
    return x.sum(axis=(0, 1))


def of_one(x):
    return nn.softmax(x, axis=1)


def from_the_back(x):
    return jnp.mean(x, -2, keepdims=True)


def of_torch(x):
    return x.cumsum(dim=2)


def swapped(x):
    return jnp.swapaxes(x, -1, -3)


def turned(x):
    return x.T


def joined(x):
    return jnp.concatenate([x, x], axis=1)


def widened(x):
    return torch.unsqueeze(x, 2)


def joined_by_position(x):
    return torch.transpose(x, 1, 2)


def reduced(x):
    return tf.reduce_sum(x, [1, 2])


@pytest.mark.parametrize(
    ("function", "rank"),
    [
        (of_two, 2), (of_one, 2), (from_the_back, 2), (of_torch, 3), (swapped, 3), (turned, 2),
        (joined, 2), (widened, 2), (joined_by_position, 3), (reduced, 3),
    ],
)  # fmt: skip
def test_an_axis_number_asks_for_a_least_rank(function, rank) -> None:
    assert least_ranks(function) == {"x": rank}


def test_an_order_of_axes_is_the_rank() -> None:
    def function(x, y, z):
        return x.permute(0, 2, 1), jnp.transpose(y, (1, 0)), tf.transpose(z, perm=[0, 2, 1, 3])

    assert ranks(function) == {"x": 3, "y": 2, "z": 4}


def test_an_axis_that_is_a_parameter_goes_over_the_axes() -> None:
    def function(x, axis, dim=-2, along=None):
        return x.sum(axis=axis) + x.mean(dim) + x.max(along, keepdims=True)

    assert kinds(function) == {"axis": "AXIS", "dim": "AXIS", "along": "AXIS"}
    assert values(function) == {
        "axis": (-1, 0, 1),
        "dim": (-2, -1, 0, 1),
        "along": (None, -1, 0, 1),
    }


def test_an_axis_that_picks_from_a_shape_is_one() -> None:
    def function(x, axis):
        return x.shape[axis]

    assert kinds(function) == {"axis": "AXIS"}


def test_keepdims_is_a_flag() -> None:
    def function(x, keepdims=False):
        return x.sum(0, keepdims=keepdims)

    assert values(function) == {"keepdims": (False, True)}


def test_a_vector_through_a_softmax_is_followed() -> None:
    def function(x):
        p = nn.softmax(x, axis=-1)
        return p[:, None]

    assert read(function)["x"].least_rank == 1


def unstacked(x, coef):
    a, b, c = tf.unstack(coef)
    return a * x + b * c


def test_what_is_taken_apart_along_its_first_axis_has_one() -> None:
    clue = read(unstacked)["coef"]
    assert (clue.least_rank, clue.first) == (1, ("3",))
