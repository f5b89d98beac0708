"""What JAX wraps up as a whole, from 0.11 on: it is opened to be looked into. The equations here stand for its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.frameworks.shared.equations import inner_jaxprs
from gradcheck_cli.reals.inner_jaxprs import Unexpanded, inlined, wrapped_up

X = jnp.ones(3)


def equation(opened: Any, **params: Any) -> Any:
    """An equation whose primitive says what stands inside."""
    primitive = SimpleNamespace(name="call_hi_primitive", to_lojax=lambda x, _prim: opened(x))
    invars = [SimpleNamespace(aval=jax.typeof(X))]
    return SimpleNamespace(primitive=primitive, params={"_prim": None, **params}, invars=invars)


def refused(x: Any) -> Any:
    raise ValueError("a function of the user")


def test_it_is_opened_wherever_an_equation_is_looked_into() -> None:
    eqn = equation(jnp.sin)
    for closed in (wrapped_up(eqn), inlined(eqn)):
        assert closed is not None
        assert [e.primitive.name for e in closed.jaxpr.eqns] == ["sin"]
    (inside,) = inner_jaxprs(eqn)
    assert [e.primitive.name for e in inside.eqns] == ["sin"]


def test_what_cannot_be_opened_says_so_and_has_nothing_inside() -> None:
    with pytest.raises(Unexpanded, match="a function of the user"):
        wrapped_up(equation(refused))
    assert inner_jaxprs(equation(refused)) == []


def test_other_equations_are_not_opened() -> None:
    assert wrapped_up(equation(refused, more=1)) is None
