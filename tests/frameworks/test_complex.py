"""Complex arguments and results: rules are handed the cotangents that a user's program hands them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.infer.probing import probe
from gradcheck_cli.inputs.signature import Hints, Leaf, Signature
from gradcheck_cli.subject.refusals import RuleError
from tests.traced import gradient_of, ruled

Z = Signature((("z", Leaf("z", (2,), "test", is_complex=True)),))
POINT = [np.array([1.0, 2.0]), np.array([0.5, -1.0])]
COTANGENT = [np.array([1.0, 3.0]), np.array([2.0, -4.0])]


def square(z: Any) -> Any:
    return z * z


def test_a_rule_gets_the_cotangent_that_jax_gives_it() -> None:
    given: list[Any] = []

    def backward(held: Any, g: Any) -> Any:
        jax.debug.callback(given.append, g)
        return (2 * held[0] * g,)

    subject = gradient_of(ruled(square, backward)).fit(Z, "float32")
    assert list(subject.outputs) == [(2,), (2,)]
    gradients = subject.rule_gradients_unbatched(POINT, COTANGENT)
    (g,) = given
    assert np.asarray(g).tolist() == [1 - 2j, 3 + 4j]  # re - i im
    pulled = 2 * (POINT[0] + 1j * POINT[1]) * np.asarray(g)
    np.testing.assert_allclose(gradients, [pulled.real, -pulled.imag])


def test_a_complex_gradient_of_real_numbers_is_no_gradient() -> None:
    rule = ruled(lambda x: jnp.abs(x) ** 2, lambda held, g: (2j * g * held[0],))
    subject = gradient_of(rule).fit(Signature((("x", Leaf("x", (2,), "test")),)), "float32")
    with pytest.raises(RuleError, match="gradient of `x` is complex") as raised:
        subject.traces()
    assert raised.value.surely().complex_of == "x"


def shapes(function: Callable[..., Any], backward: Callable[..., Any], **hints: Any) -> list[str]:
    said = Hints({}, {}, [], **hints)
    attempt = probe(gradient_of(ruled(function, backward)), "float32", said)
    return sorted({leaf.path for subject in attempt.subjects for leaf in subject.leaves})


def product(z: Any, w: Any) -> Any:
    return z * w


def transposed(held: Any, g: Any) -> Any:
    return held[1] * g, held[0] * g


def test_what_stands_beside_complex_numbers_is_complex_where_real_ones_do_not_fit() -> None:
    told = frozenset({"z"})
    both = ["w.imag", "w.real", "z.imag", "z.real"]
    assert shapes(product, transposed, complex_numbers=told) == both
    assert shapes(product, transposed, maybe_complex=told) == both
    assert shapes(product, transposed) == ["w", "z"]


def test_real_numbers_stay_real_beside_complex_ones() -> None:
    def by_real(held: Any, g: Any) -> Any:
        return held[1] * g, jnp.real(held[0] * g)

    found = shapes(product, by_real, complex_numbers=frozenset({"z"}))
    assert found == ["w", "z.imag", "z.real"]


def test_complex_numbers_are_tried_where_the_function_asks_for_them() -> None:
    def parts(z: Any) -> Any:
        return jax.lax.real(z) + jax.lax.imag(z)

    assert shapes(parts, lambda held, g: (g * (1 - 1j),)) == ["z.imag", "z.real"]


def test_complex_numbers_are_tried_where_the_gradient_of_real_ones_is_complex() -> None:
    def turned(z: Any) -> Any:
        return 1j * z

    assert shapes(turned, lambda held, g: (1j * g,)) == ["z.imag", "z.real"]
    real = frozenset({"z"})
    assert shapes(turned, lambda held, g: (1j * g,), real_numbers=real) == []
