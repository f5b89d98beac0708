"""What a gradient asks of a place is found in the rule's own names: as a factor, a term, a mask, another word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.judge.repair.correction import correction
from gradcheck_cli.judge.repair.solved import solved
from gradcheck_cli.judge.repair.trial import Trial
from tests.judge.by_text import module_of
from tests.traced import gradient_of, traced

X = np.array([0.5, -1.5, 2.0, 0.25, 1.25, -0.75])
NO_NUMBERS: frozenset[float] = frozenset()
ROWS = np.array([[0.5, -1.5, 2.0, 0.75], [1.0, 0.25, -0.75, 1.5]])

_RULE = """
import jax
import jax.numpy as jnp

@jax.custom_vjp
def f(x):
    return {value}

def forward(x):
{saved}
    return f(x), ({names},)

def backward(kept, g):
    {names}, = kept
    return ({gradient},)

f.defvjp(forward, backward)
"""

FORGOTTEN: list[tuple[str, str, str, str, str]] = [
    # value, what is saved, under which names, the gradient, and what it has to be
    ("jnp.tanh(x)", "y = jnp.tanh(x)", "x, y", "g", "g * (1 - y ** 2)"),
    ("x + 0.1 * x**3", "y = x**2", "x, y", "g * (1 + 0.1 * y)", "3 * (0.1 * y)"),
    ("x**2 / 2 + jnp.sin(x)", "c = jnp.cos(x)", "x, c", "g * c", "g * c + g * x"),
    ("x * jnp.exp(x)", "e = jnp.exp(x)", "x, e", "g * x * e", "g * x * e + g * e"),
    ("jnp.log(1 + x**2)", "y = x**2", "x, y", "g * 2 * x / y", "y + 1"),
    ("jnp.maximum(x, 0) ** 2", "y = jnp.maximum(x, 0)", "x, y", "2 * g * x", "jnp.where(x > 0, 2 * g * x, 0.0)"),
    ("(x - 0.5) ** 2 / 2", "h = x - 0.5", "x, h", "g * x", "g * h"),  # the truth is 0 at one of them
]  # fmt: skip


def rule(folder: Path, value: str, saved: str, names: str, gradient: str) -> Any:
    source = _RULE.format(value=value, saved=f"    {saved}", names=names, gradient=gradient)
    return module_of(folder, source)


@pytest.mark.parametrize(("value", "saved", "names", "gradient", "right"), FORGOTTEN)
def test_what_was_forgotten_is_found(
    tmp_path: Path, value: str, saved: str, names: str, gradient: str, right: str
) -> None:
    module = rule(tmp_path, value, saved, names, gradient)
    trial = Trial(traced(module.f, X, names=("x",)), [0, 1])
    found = [
        edit.new
        for edit in solved(
            module.backward, [trial], [range(2 * len(X))], iter(range(240)), NO_NUMBERS
        )
    ]
    assert right in found
    fix = correction([trial], gradient_of(module.f))
    assert fix is not None


def test_a_sum_that_was_forgotten_is_found_where_there_are_rows(tmp_path: Path) -> None:
    module = rule(tmp_path, "jax.nn.softmax(x, -1)", "y = jax.nn.softmax(x, -1)", "y", "g * y")
    trial = Trial(traced(module.f, ROWS, names=("x",)), [0, 1])
    found = [
        edit.new
        for edit in solved(module.backward, [trial], [[0, 1, 2, 3]], iter(range(240)), NO_NUMBERS)
    ]
    assert any("jnp.sum(g * y, axis=-1, keepdims=True)" in new for new in found)
    assert correction([trial], gradient_of(module.f)) is not None


def test_a_right_rule_is_asked_nothing(tmp_path: Path) -> None:
    module = rule(tmp_path, "jnp.sin(x)", "c = jnp.cos(x)", "c", "g * c")
    trial = Trial(traced(module.f, X, names=("x",)), [])
    assert not list(
        solved(module.backward, [trial], [range(2 * len(X))], iter(range(240)), NO_NUMBERS)
    )


def test_of_too_few_numbers_nothing_is_said(tmp_path: Path) -> None:
    module = rule(tmp_path, "jnp.sin(x)", "c = jnp.cos(x)", "x, c", "g")
    trial = Trial(traced(module.f, X[:1], names=("x",)), [0])
    assert not list(solved(module.backward, [trial], [[0, 1]], iter(range(240)), NO_NUMBERS))


def test_what_is_true_or_false_is_no_number(tmp_path: Path) -> None:
    module = rule(tmp_path, "jnp.maximum(x, 0)", "on = x > 0", "on", "g")
    trial = Trial(traced(module.f, X, names=("x",)), [1])
    found = [
        edit.new
        for edit in solved(
            module.backward, [trial], [range(2 * len(X))], iter(range(240)), NO_NUMBERS
        )
    ]
    assert found == ["jnp.where(on, g, 0.0)"]


def test_without_runs_nothing_is_seen(tmp_path: Path) -> None:
    module = rule(tmp_path, "jnp.sin(x)", "c = jnp.cos(x)", "x, c", "g")
    trial = Trial(traced(module.f, X, names=("x",)), [0])
    assert not list(solved(module.backward, [trial], [range(2 * len(X))], iter(()), NO_NUMBERS))
