"""Which of two arguments is the larger one, by texts and checks that promise it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.clues.orders import orders
from tests.conftest import check_json


def function(inner: float, outer: float, knee: float) -> float:
    return inner + outer + knee


def documented(text: str) -> Callable[..., float]:
    """A function with this docstring."""

    def told(inner: float, outer: float, knee: float) -> float:
        return inner + outer + knee

    told.__doc__ = text
    return told


@pytest.mark.parametrize(
    ("text", "above"),
    [
        ("Radii, 0 < inner < outer.", {"outer": ("inner",)}),
        ("Radii with outer > inner > knee > 0;", {"outer": ("inner",), "inner": ("knee",)}),
        ("It is assumed that inner <= outer.", {"outer": ("inner",)}),
        ("A ring. Requires `inner` < `outer`.", {"outer": ("inner",)}),
        ("outer must be strictly larger than inner.", {"outer": ("inner",)}),
        ("inner has to be below outer.", {"outer": ("inner",)}),
        ("outer (float): the far radius, greater than inner\n", {"outer": ("inner",)}),
        ("outer: radius of the rim, > inner\n", {"outer": ("inner",)}),
        ("0 < `inner` < `outer`", {"outer": ("inner",)}),
        ("The radii of a ring,\n    0 < inner < outer < 1.", {"outer": ("inner",)}),
        # A branch, and other sizes than the argument's own.
        ("When 0 < inner < knee, the slope is 1.", {}),
        ("    inner / 2,   0 <= inner < knee\n    inner - 1,   inner >= knee", {}),
        ("Quadratic near zero (0 < inner < knee), linear beyond.", {}),
        ("The linear region is 0 < inner < knee.", {}),
        ("1 on 0 < inner < knee.", {}),
        ("The difference between outer and inner must be larger than knee.", {}),
        ("If knee is negative, then\n    inner must be larger than outer.", {}),
        ("outer must be larger than inner\n    times the knee.", {}),
        ("Works without assuming inner < outer.", {}),
        ("inner should be less than outer; if not, they are swapped.", {}),
        ("Linear for inner < knee, quadratic for inner > knee.", {}),
        ("The slope is 1 inside (inner < knee < outer), 0 outside.", {}),
        ("The slope is 1 on inner < knee < outer, and 0 elsewhere.", {}),
        ("Either 0 < inner < outer, or zero.", {}),
        ("Half of 1 - 0 < inner < outer.", {}),
        ("A ring with inner < outer.", {}),
        ("With a slope of 1 for inner < knee.", {}),
        ("It is not required that inner < outer.", {}),
        ("It assumes inner < outer + knee.", {}),
        ("If inner has to be larger than outer, it is zero.", {}),
        ("No value of inner must be larger than outer.", {}),
        ("The norm of inner must be less than outer.", {}),
        ("inner: the input (above knee: linear)", {}),
        ("inner: the input, above knee it has a tenth of the slope", {}),
        ("inner: the input, > knee it is linear", {}),
        ("outer must be larger than inner * knee.", {}),
    ],
)
def test_what_a_text_promises(text: str, above: dict[str, tuple[str, ...]]) -> None:
    told = documented(text)
    assert orders([told], inspect.signature(told).parameters) == above


def asserting(a: float, b: float, c: float) -> float:
    assert a < b <= c
    return a + b + c


def raising(a: float, b: float, c: float) -> float:
    if a >= b or not b < c:
        raise ValueError("in order, please")
    return a + b + c


def of_arrays(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if (a >= b).any() or not bool(np.all(b < c)):
        raise ValueError("in order, please")
    return a + b + c


def branching(a: float, b: float, c: float) -> float:
    if a < b:
        return c
    if a < b < c:
        raise ValueError("one of both")
    return a


def of_others(a: float, b: float, c: float, strict: bool = False) -> float:
    def inner(b: float, a: float) -> None:
        assert b < a

    if strict:
        assert a < b
    c = abs(c)
    assert b < c
    return a + b + c


def returning(a: float, b: float, c: float) -> float:
    if a > b:
        return c
    assert a <= b
    return a


@pytest.mark.parametrize("checked", [asserting, raising, of_arrays])
def test_what_a_check_requires(checked: Callable[..., object]) -> None:
    assert orders([checked], "abc") == {"b": ("a",), "c": ("b",)}


def test_a_branch_and_one_of_two_conditions_require_nothing() -> None:
    assert orders([branching], "abc") == {}


def test_checks_of_other_scopes_of_some_calls_and_of_other_values_require_nothing() -> None:
    assert orders([of_others], "abc") == {}
    assert orders([returning], "abc") == {}


WIDTHS = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def width(rise, fall):
    """Between two crossings (n,), in metres.

    fall: the second one, SAID
    """
    return jnp.abs(fall - rise)


width.defvjp(lambda a, b: (width(a, b), None), lambda r, g: (-g, g))
'''


@pytest.mark.parametrize(("said", "verdict"), [("> rise", "correct"), ("in metres", "wrong")])
def test_a_rule_is_held_to_what_is_promised_of_its_arguments(
    project: Path, said: str, verdict: str
) -> None:
    (project / "a.py").write_text(WIDTHS.replace("SAID", said))
    assert check_json("a.py", cwd=project).gradient("width")["verdict"] == verdict


def test_what_the_user_asks_for_is_looked_at_as_it_is(project: Path) -> None:
    source = WIDTHS.replace("SAID", "> rise").replace("crossings (n,)", "crossings, scalars")
    (project / "a.py").write_text(source)
    asked = check_json("a.py:width", "--at", "rise=2, fall=1", cwd=project)
    assert asked.gradient("width")["verdict"] == "wrong"
