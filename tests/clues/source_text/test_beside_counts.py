"""Lengths of rows, by the places that are compared with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.inputs.clue import Kind
from tests.clues.source_text.libraries import jnp, read
from tests.conftest import check_json

PADDED = """import torch
from torch import Tensor


class PaddedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, lengths: Tensor):
        POSITIONS
        inside = positions < lengths.unsqueeze(1)
        n = lengths.clamp(min=1).to(x.dtype)
        ctx.save_for_backward(inside, n)
        return (x * inside).sum(1) / n

    @staticmethod
    def backward(ctx, g):
        inside, n = ctx.saved_tensors
        return GIVEN
"""


@pytest.mark.parametrize(
    "positions",
    [
        "positions = torch.arange(x.shape[1], device=x.device)",
        "positions = torch.arange(x.shape[1])[None]",
        "positions = torch.arange(x.size(1)).unsqueeze(0)",
    ],
)
def test_what_places_are_compared_with_is_how_many_there_are(project: Path, positions: str) -> None:
    given = "(g / n)[:, None] * inside, None"
    (project / "a.py").write_text(PADDED.replace("POSITIONS", positions).replace("GIVEN", given))
    gradient = check_json("a.py", cwd=project).gradient("PaddedMean")
    assert gradient["verdict"] == "correct"
    assert {i["path"]: i["dtype"] for i in gradient["inputs"]}["lengths"] == "fixed"


def test_what_has_a_gradient_is_no_length(project: Path) -> None:
    given = "(g / n)[:, None] * inside, -g * inside.sum(1) / n**2"
    source = PADDED.replace("POSITIONS", "positions = torch.arange(x.shape[1])")
    (project / "a.py").write_text(source.replace("GIVEN", given))
    gradient = check_json("a.py", cwd=project).gradient("PaddedMean")
    assert {i["path"]: i["dtype"] for i in gradient["inputs"]}["lengths"] == "float32"


def in_turns(x, counts):
    steps = x.shape[1]
    for t in reversed(range(1, steps)):
        x = jnp.where((t < counts)[:, None], x, 0)
    return x


def at_once(x, counts):
    steps = x.shape[1]
    return jnp.where(jnp.arange(steps)[None, :] < counts[:, None], x, 0.0)


def rule(kept, g):
    return g, None


def asks_for_none(x, counts):
    steps = x.shape[1]
    none = counts == 0
    return jnp.where((jnp.arange(steps)[None, :] < counts[:, None]) & ~none[:, None], x, 0.0)


def one_hot(x, counts):
    classes = x.shape[1]
    return jnp.where(jnp.arange(classes)[None, :] == counts[:, None], x, 0.0)


def offsets(x, start):
    steps = x.shape[1]
    return jnp.where(jnp.arange(steps)[None, :] >= start[:, None], x, 0.0)


def padded(x, lengths):
    steps = x.shape[1]
    return jnp.where(jnp.arange(steps)[None, :] >= lengths[:, None], 0.0, x)


def up_to(x, last):
    steps = x.shape[1]
    return jnp.where(jnp.arange(steps)[None, :] <= last[:, None], x, 0.0)


def before(kept, g):
    x, last = kept
    steps = x.shape[1]
    return jnp.where(jnp.arange(steps)[None, :] < last[:, None], g, 0.0), None


def checked(x, counts):
    if (counts < 1).any():
        raise ValueError("a row without steps")
    assert (counts > 0).all()
    return at_once(x, counts)


def likelihood(counts, rate, level):
    some = rate - jnp.log(rate) * counts + jnp.gammaln(counts + 1)
    return jnp.where(counts == 0, rate, some) + jnp.where(level == 0, 1, 2)


def soft_mean(counts, rate, level):
    return jnp.where(counts == 0, level, rate / jnp.where(counts == 0, 1, counts))


def of_the_rate(kept, g):
    counts, rate, level = kept
    return None, g * jnp.where(counts == 0, 1.0, 1 - counts / rate), None


def test_counts_of_data_of_which_some_are_none_are_whole_numbers() -> None:
    found = read(likelihood, of_the_rate)
    assert (found["counts"].kind, found["counts"].domain) == (Kind.INTEGERS, "in 0..6")
    assert "level" not in found or found["level"].kind is not Kind.INTEGERS
    assert read(soft_mean, of_the_rate)["counts"].kind is not Kind.INTEGERS


def test_counts_begin_at_none_where_the_text_asks_for_it() -> None:
    assert read(asks_for_none, rule)["counts"].domain == "in 0..steps+1"


@pytest.mark.parametrize("function", [one_hot, offsets])
def test_labels_and_offsets_are_no_counts(function: Any) -> None:
    assert all("+1" not in clue.domain for clue in read(function, rule).values())


def test_what_is_the_last_place_in_one_text_is_no_count_in_another() -> None:
    assert "+1" not in read(up_to, before)["last"].domain


def test_padding_is_what_lies_behind_as_many_as_count() -> None:
    assert read(padded, rule)["lengths"].domain == "in 1..steps+1"


def test_a_check_that_there_is_one_asks_for_no_empty_row() -> None:
    assert "0.." not in read(checked, rule)["counts"].domain


@pytest.mark.parametrize("function", [in_turns, at_once])
def test_what_turns_are_compared_with_counts_up_to_the_whole_axis(function: Any) -> None:
    found = read(function, rule)
    assert found["x"].first == ("", "steps")
    assert found["counts"].domain == "in 1..steps+1"
