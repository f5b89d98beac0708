"""Functions that call a custom gradient of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gradcheck_cli.discover.outer import outer_functions
from tests.discover import outer_cases


def test_what_is_called_inside_is_the_outer_functions() -> None:
    found = outer_functions(outer_cases, ["scaled", "factory", "Layer.call", "gone"])
    assert list(found) == ["scaled"]
    assert found["scaled"].through == {"x"}
    assert found["scaled"].place.definition == "scaled.<locals>.op"
    assert found["scaled"].place.qualname == "scaled"


def test_the_cases_are_what_they_say() -> None:
    assert float(outer_cases.scaled(jnp.ones(2), 3.0).sum()) == 6.0
    assert float(jax.grad(outer_cases.factory())(1.0)) == 1.0
