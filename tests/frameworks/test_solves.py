"""Solutions with an implicit derivative: who asks for them, and what they are without it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from gradcheck_cli.frameworks.jax.solves import asking_file
from gradcheck_cli.frameworks.jax.trace import own_rules, without_own_rules


def root(a: Any) -> Any:
    def steps(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 30, lambda i, x: x - f(x) / (2 * x), x)

    return lax.custom_root(
        lambda x: x * x - a, jnp.maximum(a, 1.0), steps, lambda g, y: 3 * y / g(1.0)
    )


def linear(a: Any) -> Any:
    return lax.custom_linear_solve(
        lambda x: a * x, jnp.ones_like(a), lambda f, y: y / a, symmetric=True
    )


def librarys(a: Any) -> Any:
    return jnp.linalg.solve(jnp.eye(2) * a, jnp.ones(2)).sum()


def _own(path: str) -> bool:
    return path == __file__


@pytest.mark.parametrize("function", [root, linear])
def test_the_file_that_asks_is_known(function: Any) -> None:
    files = [asking_file(eqn) for eqn in jax.make_jaxpr(function)(2.0).jaxpr.eqns]
    assert __file__ in files


@pytest.mark.parametrize(
    ("function", "name"), [(root, "custom_root"), (linear, "custom_linear_solve")]
)
def test_it_is_a_rule_of_the_users_and_goes_by_its_name(function: Any, name: str) -> None:
    assert own_rules(lambda a: (function(a),), _own, 2.0) == (name,)
    assert own_rules(lambda a: (function(a),), lambda path: False, 2.0) == ()


def test_what_a_library_solves_is_its_own() -> None:
    assert own_rules(lambda a: (librarys(a),), _own, 2.0) == ()


def test_without_its_rule_it_is_the_solver_that_was_given() -> None:
    plain = without_own_rules(lambda a: (root(a),), _own, 2.0)
    assert jax.grad(root)(2.0) == pytest.approx(3 / (2 * 2**0.5), rel=1e-5)
    (slope,) = jax.jvp(lambda a: plain(a)[0], (2.0,), (1.0,))[1:]
    assert slope == pytest.approx(1 / (2 * 2**0.5), rel=1e-5)
