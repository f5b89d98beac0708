"""A forward call is made once, and made again where what ran in it is another text."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.judge.repair.edits import instead
from gradcheck_cli.judge.repair.forward_calls import ForwardCalls
from gradcheck_cli.judge.source.rewritten import rewritten, tree_of
from tests.judge.by_text import module_of
from tests.traced import traced

X = np.array([0.5, -1.5, 2.0])

_RULE = """
import jax
import jax.numpy as jnp

calls = []

def twice(x):
    return 2 * x

@jax.custom_vjp
def f(x):
    return x**2

def forward(x):
    calls.append(1)
    return f(x), twice(x)

def backward(kept, g):
    return (kept * g + 0 * twice(g),)

f.defvjp(forward, backward)
"""


@pytest.fixture
def rule(tmp_path: Path) -> Any:
    return module_of(tmp_path, _RULE)


def tripled(function: Any) -> Any:
    """The function's text with three times its result, or the last of several."""
    tree = tree_of(function)
    assert tree is not None
    returned = next(node for node in ast.walk(tree) if isinstance(node, ast.Return))
    assert returned.value is not None
    place = returned.value.elts[-1] if isinstance(returned.value, ast.Tuple) else returned.value
    return instead(tree, place, ast.BinOp(place, ast.Mult(), ast.Constant(3)))


def test_the_forward_is_called_once_for_all_changes_of_the_backward(rule: Any) -> None:
    kept = ForwardCalls(traced(rule.f, X, names=("x",)))
    before = kept.gradients(0)[0]
    rule.calls.clear()
    with rewritten(rule.backward, tripled(rule.backward)) as runs:
        assert runs
        after = kept.gradients(0)[0]
    assert rule.calls == []
    np.testing.assert_allclose(after, 3 * before)
    np.testing.assert_allclose(kept.gradients(0)[0], before)


@pytest.mark.parametrize("name", ["forward", "twice"])
def test_it_is_called_again_where_what_ran_in_it_is_changed(rule: Any, name: str) -> None:
    kept = ForwardCalls(traced(rule.f, X, names=("x",)))
    before = kept.gradients(0)[0]
    rule.calls.clear()
    changed = getattr(rule, name)
    with rewritten(changed, tripled(changed)):
        after = kept.gradients(0)[0]
    assert rule.calls == [1]
    np.testing.assert_allclose(after, 3 * before)
    np.testing.assert_allclose(kept.gradients(0)[0], before)


def test_what_is_first_called_while_changed_is_not_kept(rule: Any) -> None:
    kept = ForwardCalls(traced(rule.f, X, names=("x",)))
    with rewritten(rule.twice, tripled(rule.twice)):
        changed = kept.gradients(1)[0]
    np.testing.assert_allclose(changed, 3 * kept.gradients(1)[0])
