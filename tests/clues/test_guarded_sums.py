"""Weights whose sum is kept above zero."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.clues.guarded_sums import clues

jnp: Any = None
segment_sum: Any = None
_mask: Any = None
apply_mask: Any = None
EPS = 1e-8


def chosen(x: Any, w: Any, ids: Any) -> Any:
    total = segment_sum(w, ids, 3)
    return x / jnp.where(total > 0, total, 1.0)


def chosen_by_name(x: Any, w: Any, ids: Any) -> Any:
    total = w.new_zeros(3).index_add(0, ids, w)
    used = total > 0
    return x / jnp.where(used, total, jnp.ones_like(total))


def named_otherwise(x: Any, w: Any, ids: Any) -> Any:
    total = jnp.sum(w)
    used = x > 0
    return x / jnp.where(used, total, jnp.ones_like(total))


def clamped(x: Any, w: Any, ids: Any) -> Any:
    return x / w.sum(-1, keepdim=True).clamp(min=1e-12)


def above_epsilon(x: Any, w: Any, ids: Any) -> Any:
    total = jnp.sum(w)
    return x * w / jnp.maximum(total, EPS)


def clipped(x: Any, w: Any, ids: Any) -> Any:
    return jnp.clip(x, 0.1) * jnp.sum(w)


def of_another(x: Any, w: Any, ids: Any) -> Any:
    return x / jnp.maximum(jnp.sum(w * w), EPS)


def divided(x: Any, w: Any, ids: Any) -> Any:
    total = jnp.sum(w)
    return jnp.where(total > 0, x / total, jnp.zeros_like(x))


def leaky(x: Any, w: Any, ids: Any) -> Any:
    total = jnp.sum(w)
    return jnp.where(total > 0, total, 0.1 * total)


def within(x: Any, w: Any, ids: Any) -> Any:
    n_steps = 3
    return (
        jnp.clip(jnp.sum(w), -10.0, 10.0)
        + w.sum(-1).clip(0, 6)
        + w.sum(-1).max(1)
        + jnp.maximum(w.sum(), n_steps)
    )


def masked(x: Any, w: Any, ids: Any) -> Any:
    inside = (ids > 0).astype(x.dtype)
    depth = jnp.sum(inside * w, axis=-1)
    return jnp.where(depth > 0, depth, jnp.ones_like(depth))


def mixed(x: Any, w: Any, ids: Any) -> Any:
    other = jnp.exp(ids)
    return x / jnp.maximum(jnp.sum(other * w), EPS)


def of_a_norm(x: Any, w: Any, ids: Any) -> Any:
    return (
        x
        / ((w.float() * w).sum(-1) + (x.to(w.dtype) * w).sum()).clamp(min=1e-8)
        / jnp.maximum(jnp.sum(w.astype(x.dtype) * x), EPS)
    )


def over_another(x: Any, w: Any, ids: Any) -> Any:
    mask = jnp.cast(ids, x.dtype)
    volume = mask * w / x
    total = volume.sum(1)
    filled = total > 0.0
    return jnp.where(filled, total, jnp.ones_like(total))


def of_both_signs(x: Any, w: Any, ids: Any) -> Any:
    targets, cos = ids.astype(x.dtype), ids.to(x.dtype)
    total = (cos * w).sum(-1).clamp(min=1e-8) + jnp.sum(w / -x).clip(EPS) + jnp.sum(w / w).clip(EPS)
    return x / jnp.maximum(jnp.sum(targets * w), EPS) / total


def given_in_part(x: Any, w: Any, ids: Any) -> Any:
    moved = w
    moved -= w.mean()
    changed = w
    changed[0] = -1
    below = jnp.maximum(jnp.sum(moved / x), EPS)
    return x / below / jnp.maximum(jnp.sum(changed / x), EPS)


def cast_by_name(x: Any, w: Any, ids: Any) -> Any:
    valid = ids
    inside = jnp.cast(valid, x.dtype)
    total = jnp.sum(inside * jnp.where(valid, w, 0.0)) + jnp.sum(inside * w)
    depth = jnp.sum(inside * w)
    return jnp.where(depth > 0, depth, jnp.ones_like(total))


def by_a_helper(x: Any, w: Any, ids: Any) -> Any:
    rows = _mask(ids, x)
    weight = rows * w
    total = jnp.sum(weight, axis=-1)
    return jnp.where(total > 0, total, jnp.ones_like(total))


def of_what_is_masked(x: Any, w: Any, ids: Any) -> Any:
    return jnp.log(jnp.maximum(jnp.sum(w * apply_mask(x, ids)), EPS))


@pytest.mark.parametrize(
    ("function", "found"),
    [(of_what_is_masked, set()), (by_a_helper, {"w"}), (of_a_norm, set()), (cast_by_name, {"w"}), (over_another, {"w"}), (of_both_signs, set()), (given_in_part, set()), (masked, {"w"}), (mixed, set()), (chosen, {"w"}), (chosen_by_name, {"w"}), (named_otherwise, set()), (clamped, {"w"}), (above_epsilon, {"w"}), (clipped, set()), (of_another, set()), (divided, {"w"}), (leaky, set()), (within, set())],
)  # fmt: skip
def test_what_is_not_negative(function: Any, found: set[str]) -> None:
    told = clues([function], ["x", "w"])
    assert {name: clue.domain for name, clue in told.items()} == dict.fromkeys(found, ">= 0")


def shares(parts: Any, group: Any) -> Any:
    total = segment_sum(parts, group, 3)
    return parts, jnp.where(total > 0, total, 1.0)


def by_a_helper(x: Any, w: Any, ids: Any) -> Any:
    mass, total = shares(w, ids)
    return x * mass / total


def by_a_helper_of_another(x: Any, w: Any, ids: Any) -> Any:
    mass, total = shares(x * w, ids)
    return mass / total


def test_a_helper_keeps_the_sum_of_what_it_is_handed_above_zero() -> None:
    assert {"x", "w"} & set(clues([by_a_helper], ("x", "w", "ids"))) == {"w"}
    assert not {"x", "w"} & set(clues([by_a_helper_of_another], ("x", "w", "ids")))


def turned_before(x: Any, w: Any, ids: Any) -> Any:
    x = jnp.abs(x)
    return x / jnp.maximum(jnp.sum(x), EPS)


def reshaped_before(x: Any, w: Any, ids: Any) -> Any:
    w = w[:, None]
    return x / jnp.maximum(jnp.sum(w), EPS)


def turned_before_a_helper(x: Any, w: Any, ids: Any) -> Any:
    w = jnp.abs(w)
    mass, total = shares(w, ids)
    return x * mass / total


def test_what_is_turned_before_it_is_added_up_may_be_negative() -> None:
    assert not clues([turned_before], ("x", "w"))
    assert not clues([turned_before_a_helper], ("x", "w"))
    assert set(clues([reshaped_before], ("x", "w"))) == {"w"}
