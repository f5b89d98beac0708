"""Arguments that are one bound of a clip whose other bound is a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.numpy as xp
import numpy as np
import pytest
from jax import lax

from gradcheck_cli.clues.clip_bounds import clues, cut_off_by
from gradcheck_cli.clues.first_clues import domains


def counted(share: Any, most: Any) -> Any:
    n = most[:, None]
    return jnp.clip(n * share, 0.0, n)


def by_name(x: Any, floor: Any) -> Any:
    return np.clip(x, a_min=floor, a_max=-1)


def of_a_tensor(x: Any, cap: Any) -> Any:
    return x.clamp(0, cap.unsqueeze(-1))


def both_given(x: Any, low: Any, high: Any) -> Any:
    return jnp.clip(x, low, high)


def of_arrays(x: Any, n: Any) -> Any:
    start, length = x[:, None], n[:, None]
    return jnp.clip(x - start, jnp.zeros_like(length), length)


def exchanged(x: Any, n: Any) -> Any:
    x, n = n, x
    return jnp.clip(x, 0.0, n)


def of_several(x: Any, n: Any) -> Any:
    low, high = *n, x
    return jnp.clip(x, 0.0, low) + high


def computed(x: Any, n: Any) -> Any:
    return jnp.clip(x, 0.0, n * x)


def given_anew(x: Any, n: Any) -> Any:
    n = n - 1
    return jnp.clip(x, 0.0, n)


def given_by_parts(x: Any, low: Any, n: Any) -> Any:
    low, n = -n, 2 * low
    return jnp.clip(x, 0.0, n)


def changed_in_place(x: Any, cap: Any) -> Any:
    cap -= 3
    return jnp.clip(x, 0.0, cap)


def of_an_inner_function(x: Any, n: Any) -> Any:
    def inner(n: Any) -> Any:
        return jnp.clip(x, 0.0, n)

    return inner(-n)


def one_of_it(x: Any, w: Any) -> Any:
    return jnp.clip(x, 0, w[..., 0])


def of_numbers(x: Any) -> Any:
    return xp.clip(x, -1.0, 1.0) + lax.clamp(0.0, x, 1.0) + xp.clip(x, 2.0)


def between_its_bounds(x: Any, cap: Any) -> Any:
    return lax.clamp(0.0, x, cap)


def of_a_backend(x: Any, cap: Any, backend: Any) -> Any:
    return backend.clip(x, 0.0, cap)


def under_its_own_name(x: Any, cap: Any) -> Any:
    cap = cap[:, None]
    return xp.clip(x, min=0.0, max=cap)


def of_a_field(x: Any, yarn: Any) -> Any:
    return jnp.clip(x, 0.0, yarn.knee)


def of_a_field_given_anew(x: Any, yarn: Any) -> Any:
    yarn = yarn.wet
    return jnp.clip(x, 0.0, yarn.knee)


def tension(strain: Any, fibre: Any, most: Any) -> Any:
    return jnp.clip(strain, 0.0, fibre.knee) + jnp.clip(strain, 1.0, most)


def by_a_helper(x: Any, yarn: Any, cap: Any) -> Any:
    return tension(x / 2, yarn, cap)


def with_a_star(x: Any, yarn: Any, cap: Any) -> Any:
    pair = x, yarn
    return tension(*pair, cap) + tension(x, most=cap, fibre=cap.wet)


def of_an_array(x: Any, cap: Any) -> Any:
    return jnp.clip(x, 0, cap.size)


def by_a_helper_of_another(x: Any, yarn: Any, cap: Any) -> Any:
    cap = jnp.abs(cap)
    return tension(x / 2, yarn.wet, cap)


def one_sided(x: Any, n: Any) -> Any:
    return x.clamp(min=n)


@pytest.mark.parametrize(
    ("function", "domains"),
    [
        (counted, {"most": "> 0"}),
        (by_name, {"floor": "< -1"}),
        (of_a_tensor, {"cap": "> 0"}),
        (both_given, {}),
        (computed, {}),
        (given_anew, {}),
        (one_sided, {}),
        (given_by_parts, {}),
        (of_arrays, {"n": "> 0"}),
        (exchanged, {}),
        (of_several, {}),
        (changed_in_place, {}),
        (of_an_inner_function, {}),
        (one_of_it, {}),
        (of_numbers, {}),
        (between_its_bounds, {"cap": "> 0"}),
        (of_a_backend, {"cap": "> 0"}),
        (under_its_own_name, {"cap": "> 0"}),
        (of_a_field, {"yarn.knee": "> 0"}),
        (of_a_field_given_anew, {}),
        (by_a_helper, {"yarn.knee": "> 0", "cap": "> 1"}),
        (by_a_helper_of_another, {}),
        (with_a_star, {"cap": "> 1"}),
        (of_an_array, {}),
    ],
)
def test_the_side_of_a_bound(function: Callable[..., Any], domains: dict[str, str]) -> None:
    found = clues(
        [function], {"x", "share", "most", "floor", "cap", "low", "high", "n", "w", "yarn"}
    )
    assert {name: clue.domain for name, clue in found.items()} == domains


def test_what_its_name_says_of_it_comes_first() -> None:
    def f(x: Any, radius: Any) -> Any:
        return x / radius + jnp.clip(x, radius, 10.0)

    assert domains({}, f, (), ("x", "radius"))["radius"].bounds.low > 0


def test_a_value_that_function_and_rule_give_it_is_none_of_the_call() -> None:
    def f(x: Any, cap: Any) -> Any:
        cap = jnp.abs(cap)
        return jnp.clip(x, 0.0, cap)

    def forward(x: Any, cap: Any) -> Any:
        cap = jnp.abs(cap)
        return jnp.clip(x, 0.0, cap), x

    assert clues([f, forward], {"x", "cap"}) == {}


def test_what_a_function_cuts_something_off_by() -> None:
    def capped(x: Any, cap: Any, low: Any) -> Any:
        return jnp.minimum(jnp.exp(x), cap) + x.clamp(min=low)

    def softplus(x: Any, cap: Any, low: Any) -> Any:
        return jnp.where(x > cap, x, jnp.log1p(jnp.exp(jnp.minimum(x, cap)))) + low

    names = ["x", "cap", "low"]
    assert cut_off_by(capped, names) == {"cap", "low"}
    assert cut_off_by(softplus, names) == frozenset()
