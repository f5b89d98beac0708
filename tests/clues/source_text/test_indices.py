"""Indices between brackets."""

from __future__ import annotations

import pytest

from gradcheck_cli.inputs.clue import Kind
from tests.clues.source_text.libraries import (
    fields,
    jnp,
    kinds,
    lax,
    least_ranks,
    ranks,
    read,
    values,
)


def columns(x):
    return x[:, 0]


def pairs(x, i, j):
    return x[0, 2, 1]


def new_last(x):
    return x[..., None]


def new_inner(x):
    return x[:, None, :]


def rows(x):
    return x[0][1]


def dots(x):
    return x[1, ..., 2]


@pytest.mark.parametrize(
    ("function", "rank"), [(columns, 2), (pairs, 3), (new_inner, 2), (dots, 2), (new_last, 0)]
)
def test_every_entry_that_is_no_new_axis_needs_one(function, rank) -> None:
    assert least_ranks(function).get("x", 0) == rank


def test_constants_ask_for_a_least_size() -> None:
    def function(q, x, y):
        return q[..., 3] + x[0] * x[1:].sum() + y[:, -2]

    found = read(function)
    assert found["q"].last == ("4+",)
    assert found["x"].first == ("2+",)
    assert found["y"].first == ("", "2+")


def test_columns_that_are_read_one_by_one_seem_to_be_all() -> None:
    def function(boxes, x):
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) + x[:, 1] + x[:, 2]

    found = read(function)
    assert found["boxes"].first == ("", "4?")
    assert found["x"].first == ("", "3+")


def test_integers_that_index_stay_below_the_axis() -> None:
    def function(table, ids):
        v, d = table.shape
        return table[ids]

    found = read(function)["ids"]
    assert (found.kind.name, found.domain) == ("INTEGERS", "in 0..v")


def test_labels_beside_a_range_are_as_many() -> None:
    def function(logits, labels):
        n, c = logits.shape
        log_p = jnp.log(logits)
        return -log_p[jnp.arange(n), labels].mean()

    found = read(function)["labels"]
    assert (found.spec, found.domain) == ("i32[n] in 0..c", "in 0..c")


def test_integers_that_update_stay_below_the_size_of_what_is_made() -> None:
    def function(data, ids, n):
        return jnp.zeros((n, data.shape[1])).at[ids].add(data)

    assert kinds(function) == {"ids": "INTEGERS", "n": "WHOLE"}
    assert read(function)["ids"].domain == "in 0..n"


def test_bounds_of_slices_are_whole_numbers() -> None:
    def function(x, k, stride):
        return x[:k, ::stride]

    assert kinds(function) == {"k": "WHOLE", "stride": "WHOLE"}
    assert values(function)["stride"][0] == 2


def test_an_index_that_may_be_a_tuple_says_nothing() -> None:
    def function(x):
        where = tuple(slice(None) for _ in range(2))
        return x[where]

    assert fields(function, "least_rank") == {}


def test_a_loop_over_a_range_gives_numbers() -> None:
    def function(xs, ys, zs, h):
        n = ys.shape[0]
        for t in reversed(range(n)):
            h = h + xs[t][0] * ys[t, n - 1 - t]
        total = sum(zs[i] @ zs[i] for i in range(n))
        return lax.fori_loop(0, n, lambda i, v: v + xs[i, i, i], h), total

    assert least_ranks(function) == {"xs": 3, "ys": 2, "zs": 2}


def test_new_axes_are_taken_off_the_rank() -> None:
    def function(x, w, y):
        z = lax.conv_general_dilated(x[None, None], w[None, None, :], (1,), "SAME")
        return z, jnp.expand_dims(y, 0).permute(0, 2, 1)

    assert ranks(function) == {"x": 1, "w": 1, "y": 2}


def test_arrays_with_one_index_have_as_many_rows() -> None:
    def function(weight, bias, other, ids, keep):
        nodes = ids.masked_fill(~keep, 0)
        scores = weight[nodes] + bias[nodes]
        nodes = scores.argmax(-1)
        return scores * other[nodes]

    found = read(function)
    assert found["weight"].first == found["bias"].first == ("weight_0",)
    assert "other" not in found


def test_the_columns_of_a_table_are_integers_where_one_of_them_is() -> None:
    def function(xyz, pairs):
        return jnp.take(xyz, pairs[:, 0], axis=0) - jnp.take(xyz, pairs[:, 1], axis=0)

    found = read(function)["pairs"]
    assert found.kind is Kind.INTEGERS
    assert found.domain == "in 0..xyz_0"


def test_places_that_are_kept_within_bounds_are_places_all_the_same() -> None:
    def function(x, a, b, c):
        kept = x[jnp.where(a >= 0, a, 0)] + x[jnp.clip(b, 0)] + x[jnp.maximum(c, 0)]
        return kept

    found = read(function)
    assert {name: found[name].domain for name in "abc"} == dict.fromkeys("abc", "in 0..x_0")
    assert {found[name].kind for name in "abc"} == {Kind.INTEGERS}


def test_places_that_are_none_may_be_sent_behind_the_end() -> None:
    def function(x, ids, others):
        slots = jnp.where(ids >= 0, ids, x.shape[0])
        turned = jnp.where(others < 0, 0, others)
        return jnp.zeros(x.shape[0]).at[slots].add(1.0, mode="drop"), x[turned]

    found = read(function)
    assert {found[name].domain for name in ("ids", "others")} == {"in 0..x_0"}
    assert {found[name].kind for name in ("ids", "others")} == {Kind.INTEGERS}


def test_a_mask_is_one_where_a_loop_takes_it_column_by_column() -> None:
    def function(x, valid):
        for t in range(3):
            x = jnp.where(valid[:, t], x, 0.0)
        return x

    assert kinds(function)["valid"] == "BOOLS"


def test_what_was_rounded_holds_no_integers_itself() -> None:
    def fractional(frames, times):
        low = times.clamp(0, 4).floor().long().clamp(max=3)
        return frames.gather(1, low) + times

    def whole(frames, times):
        return frames.gather(1, times.clamp(0, 4)) + times

    assert kinds(whole)["times"] == "INTEGERS"
    assert kinds(fractional).get("times") != "INTEGERS"
