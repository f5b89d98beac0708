"""Ranges over wide stretches enclose what flint computes at single points, and are narrow where it matters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb

from gradcheck_cli.frameworks.shared.tracing import with_pullback
from gradcheck_cli.reals.balls.balls import Balls
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.ranges.ranges import Span, Undefined, spans
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.reals.walk import walk

FUNCTIONS = {
    "log1pexp": lambda x: jnp.log(1 + jnp.exp(x)),
    "sigmoid": lambda x: 1 / (1 + jnp.exp(-x)),
    "swish": lambda x: x * jax.nn.sigmoid(x),
    "tanh": jnp.tanh,
    "log cosh": lambda x: jnp.log(jnp.cosh(x)),
    "gelu": jax.nn.gelu,
    "root": lambda x: jnp.sqrt(1 + x**2) - x,
    "chosen": lambda x: jnp.where(x > 3, jnp.exp(-x), x),
    "power": lambda x: jnp.abs(x) ** 2.5 / (1 + x * x),
    "sine": lambda x: jnp.sin(x) / x,
    "erf": lambda x: jax.scipy.special.erf(x) + jax.scipy.special.erfc(x),
}


def _program(function):
    both = with_pullback(lambda x: (function(x),), 1)
    aval = jax.ShapeDtypeStruct((), jnp.float32)
    return build(jax.make_jaxpr(lambda x: both(x, jnp.ones_like(x)))(aval))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("low", "high"), [(5.0, 40.0), (-30.0, -4.0), (1e3, 2e3), (-1e6, -1e5)])
def test_a_range_holds_all_that_is_inside(name, low, high):
    program = _program(FUNCTIONS[name])
    found = spans(program, low, high)
    if found is None:
        return  # not known is never wrong
    points = np.linspace(low, high, 23)
    with working(4096):
        numbers = elements([arb(p) for p in points.tolist()], (len(points),))
        outs = walk(program, Balls(len(points)), [numbers])
        for span, out in zip(found, outs, strict=True):
            assert isinstance(span, Span)
            for ball in np.broadcast_to(out, points.shape).tolist():
                assert span.low <= ball.upper() and ball.lower() <= span.high


@pytest.mark.parametrize("name", ["log1pexp", "sigmoid", "swish", "tanh", "log cosh"])
def test_a_saturated_gradient_is_known_all_over_the_tail(name):
    for low, high in ((1e3, 2e3), (1e37, 3e38)):
        found = spans(_program(FUNCTIONS[name]), low, high)
        assert found is not None
        gradient = found[-1]
        assert isinstance(gradient, Span)
        assert float((gradient.high - gradient.low).upper()) < 1e-12


def test_the_logarithm_of_negative_numbers_is_undefined():
    found = spans(_program(jnp.log), -2.0, -1.0)
    assert found is not None
    assert isinstance(found[0], Undefined)


def test_a_stretch_across_a_pole_or_a_jump_is_not_known():
    assert spans(_program(lambda x: 1 / x), -1.0, 1.0) is None
    assert spans(_program(lambda x: jnp.where(x > 0, x, 1.0)), -1.0, 1.0) is None
