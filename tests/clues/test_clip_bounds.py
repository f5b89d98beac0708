"""Arguments that are one bound of a clip whose other bound is a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.clues.clip_bounds import clues


def counted(share: Any, most: Any) -> Any:
    n = most[:, None]
    return jnp.clip(n * share, 0.0, n)


def by_name(x: Any, floor: Any) -> Any:
    return np.clip(x, a_min=floor, a_max=-1)


def of_a_tensor(x: Any, cap: Any) -> Any:
    return x.clamp(0, cap.unsqueeze(-1))


def both_given(x: Any, low: Any, high: Any) -> Any:
    return jnp.clip(x, low, high)


def computed(x: Any, n: Any) -> Any:
    return jnp.clip(x, 0.0, n * x)


def given_anew(x: Any, n: Any) -> Any:
    n = n - 1
    return jnp.clip(x, 0.0, n)


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
    ],
)
def test_the_side_of_a_bound(function: Callable[..., Any], domains: dict[str, str]) -> None:
    found = clues([function], {"x", "share", "most", "floor", "cap", "low", "high", "n"})
    assert {name: clue.domain for name, clue in found.items()} == domains
