"""Each elementwise rule encloses the exact result, tightly, and agrees with itself at more bits."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from gradcheck_cli.reals.balls import scalar
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.facts import Law, functions
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import walk

BITS = 192

REFERENCE: dict[str, Callable[..., object]] = {
    "abs": abs,
    "acos": mpmath.acos,
    "acosh": mpmath.acosh,
    "asin": mpmath.asin,
    "asinh": mpmath.asinh,
    "atan": mpmath.atan,
    "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "ceil": mpmath.ceil,
    "cos": mpmath.cos,
    "cosh": mpmath.cosh,
    "digamma": mpmath.digamma,
    "erf": mpmath.erf,
    "erf_inv": mpmath.erfinv,
    "erfc": mpmath.erfc,
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "floor": mpmath.floor,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "log2": lambda x: mpmath.log(x, 2),
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "neg": lambda x: -x,
    "one_minus_square": lambda x: 1 - x * x,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sign": mpmath.sign,
    "sin": mpmath.sin,
    "sinh": mpmath.sinh,
    "sqrt": mpmath.sqrt,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "add": lambda x, y: x + y,
    "add_any": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "max": max,
    "min": min,
    "atan2": mpmath.atan2,
    "pow": lambda x, y: x**y,
    "rem": lambda x, y: x - y * (mpmath.floor(x / y) if x / y >= 0 else mpmath.ceil(x / y)),
}

# Where a real result exists.
DOMAIN: dict[str, Callable[..., bool]] = {
    "acos": lambda x: abs(x) <= 1,
    "asin": lambda x: abs(x) <= 1,
    "erf_inv": lambda x: abs(x) < 1,
    "atanh": lambda x: abs(x) < 1,
    "acosh": lambda x: x >= 1,
    "log": lambda x: x > 0,
    "log1p": lambda x: x > -1,
    "log2": lambda x: x > 0,
    "sqrt": lambda x: x >= 0,
    "rsqrt": lambda x: x > 0,
    "digamma": lambda x: x > 0 and x < 1e3,
    "lgamma": lambda x: x > 0 and x < 1e3,
    "div": lambda x, y: y != 0,
    "rem": lambda x, y: y != 0 and abs(x / y) < 1e6,
    "pow": lambda x, y: x > 0 and abs(y) < 100,
    "atan2": lambda y, x: x != 0 or y != 0,
    "exp": lambda x: abs(x) < 1e4,
    "exp2": lambda x: abs(x) < 1e4,
    "expm1": lambda x: abs(x) < 1e4,
    "cosh": lambda x: abs(x) < 1e4,
    "sinh": lambda x: abs(x) < 1e4,
    "logistic": lambda x: abs(x) < 1e4,
    "erfc": lambda x: abs(x) < 50,
}

HOSTILE = [0.0, 1.0, -1.0, 0.5, 1e-30, -1e-30, 100.0, -100.0, 1 - 2.0**-24, 3.5, -2.5, 1e3]
numbers = st.one_of(
    st.sampled_from(HOSTILE), st.floats(-1e3, 1e3, width=32), st.floats(-1.0, 1.0, width=32)
)


def ball(name: str, *args: float, bits: int = BITS) -> arb:
    primitive = {
        "logistic": lax.logistic_p,
        "add_any": jax._src.ad_util.add_any_p,  # type: ignore[attr-defined]
    }.get(name) or getattr(lax, f"{name}_p")
    params = {"accuracy": None} if name in _WITH_ACCURACY else {}
    avals = [jax.ShapeDtypeStruct((), jnp.float32)] * len(args)
    program = build(jax.make_jaxpr(lambda *xs: primitive.bind(*xs, **params))(*avals))
    with working(bits):
        (out,) = walk(program, Balls(1), [exact(np.array([a])) for a in args])
        return out.reshape(-1)[0]


_LATER = frozenset(["log2", "one_minus_square"])

_WITH_ACCURACY = frozenset(
    [
        "cbrt",
        "cos",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "logistic",
        "rsqrt",
        "sin",
        "sqrt",
        "tan",
        "tanh",
    ]
)


def contains(enclosure: arb, truth: object) -> bool:
    with working(4 * BITS):
        return bool(
            enclosure.overlaps(
                arb(mpmath.nstr(truth, 100), arb(10) ** -90 * (1 + abs(float(truth))))
            )
        )  # type: ignore[arg-type]


# Some came with later versions of JAX.
@pytest.mark.parametrize("name", [n for n in sorted(REFERENCE) if n not in _LATER or hasattr(lax, f"{n}_p")])  # fmt: skip
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_contains_the_exact_result(name: str, data: st.DataObject) -> None:
    count = 2 if name in functions(Law.BINARY) else 1
    args = [data.draw(numbers) for _ in range(count)]
    if not DOMAIN.get(name, lambda *a: True)(*args):
        return
    with mpmath.workdps(120):
        truth = REFERENCE[name](*map(mpmath.mpf, args))
        enclosure = ball(name, *args)
        assert contains(enclosure, truth), (name, args, enclosure, truth)
        finer = ball(name, *args, bits=2 * BITS)
        assert enclosure.overlaps(finer)
        if not enclosure.contains(0):
            assert enclosure.is_exact() or enclosure.rel_accuracy_bits() > BITS - 60


def test_every_elementwise_primitive_has_a_reference() -> None:
    assert functions(Law.UNARY).keys() | functions(Law.BINARY).keys() == REFERENCE.keys()


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [("log", 0.0, -math.inf), ("log", math.inf, math.inf), ("exp", -math.inf, 0.0), ("exp", math.inf, math.inf), ("tanh", math.inf, 1.0), ("sqrt", math.inf, math.inf), ("log1p", -1.0, -math.inf)],
)  # fmt: skip
def test_infinite_operands_are_exact_points(name: str, x: float, expected: float) -> None:
    assert float(ball(name, x)) == expected


def test_infinity_minus_infinity_is_undefined() -> None:
    assert ball("sub", math.inf, math.inf).is_nan()


def test_pole_and_hole_are_undefined_not_guessed() -> None:
    assert ball("div", 1.0, 0.0).is_nan()
    assert ball("sqrt", -1.0).is_nan()


@pytest.mark.parametrize(("n", "low", "high"), [(2, 0, 0.25), (3, -0.125, 0.125), (4, 0, 0.0625)])
def test_a_power_of_a_ball_around_zero_is_a_ball(n: int, low: float, high: float) -> None:
    """`(z - mean) ** 2` of a single z: the middle is 0 exactly, and flint's own power no number."""
    power = scalar.integer_power(arb(0, 0.5), n)
    assert power.contains(low)
    assert power.contains(high)
    assert float(power.lower()) >= low - 1e-6
    assert float(power.upper()) <= high + 1e-6
    assert scalar.power(arb(0, 0.5), arb(n)).contains(high)


def test_the_cube_root_of_a_ball_around_zero_lies_between_those_of_its_ends() -> None:
    root = scalar.cbrt(arb(0, 0.125))
    assert root.contains(0.5)
    assert root.contains(-0.5)
    assert float(root.rad()) < 0.51
    assert scalar.cbrt(arb(0)).is_zero()
