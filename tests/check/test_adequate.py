"""Adequacy of one signature: each static argument is moved, where the function takes another."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import pytest

from gradcheck_cli.adequacy.change import Kind, Showing
from gradcheck_cli.check.adequate import adequate
from gradcheck_cli.inputs.signature import Fixed
from tests.adequacy.test_adequacy import column
from tests.check.fakes import Asked
from tests.traced import gradient_of, traced


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def power(x: Any, n: int, flag: bool) -> Any:
    if n > 8:
        raise ValueError
    return x**n


power.defvjp(lambda x, n, flag: (x**n, x), lambda n, flag, x, g: (g * n * x ** (n - 1),))


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (2, {"`n` = 2 → 3": Showing.SHOWN, "`flag` = True → False": Showing.EQUAL}),
        (8, {"`flag` = True → False": Showing.EQUAL}),  # 9 is refused
    ],
)
def test_statics_are_moved(n: int, told: dict[str, Showing]) -> None:
    fixed = [("n", Fixed(n, str(n), "test")), ("flag", Fixed(True, "True", "test"))]
    m = traced(power, column(3), fixed=fixed)
    gradient: Any = gradient_of(power)
    showings = adequate(replace(Asked().request(), gradient=gradient), m).showings
    statics = {c.words: s for c, s in showings.showings.items() if "→" in c.words and c.kind is Kind.ARGUMENT}  # fmt: skip
    assert statics == told


def test_a_plain_function_has_no_adequacy() -> None:
    m = traced(lambda x: x**2, column(3))
    assert adequate(Asked().request(), m).showings.showings == {}
