"""A change that makes the rule right is shown: verified, in the user's spelling, on every framework."""

from __future__ import annotations

import ast
import contextlib
from types import FunctionType
from typing import Any

import pytest

from gradcheck_cli.judge.diagnose.edits import edits
from gradcheck_cli.judge.diagnose.rewritten import rewritten, tree_of
from tests.conftest import check_json

JAX, TORCH, TENSORFLOW = "wrong/formula.py", "torch/wrong.py", "tensorflow/wrong.py"
CHANGES = [
    (JAX, "wave", "`jnp.cos(x) * dx * y + jnp.sin(x) * dy` instead of"),
    (JAX, "square", "line 27: `2 * (ct * x)` instead of `ct * x`"),
    (JAX, "rms_norm", "line 44: `ct * w` instead of `ct`"),
    (JAX, "row_loss", "line 67: `ct` instead of `ct[0]`"),
    (JAX, "ramp", "`beta * x` instead of `beta`"),
    (TORCH, "Sign", "`grad` instead of `-grad`"),
    (TORCH, "BranchVariable", "`x` instead of `out`"),
    (TENSORFLOW, "swapped", "`(dy * 2 * x * y, dy * x * x)` instead of"),
    (TENSORFLOW, "clipped", "`3.0 * dy` instead of `tf.clip_by_value(3.0 * dy, -8.0, 8.0)`"),
]


@pytest.mark.parametrize(("file", "name", "change"), CHANGES)
def test_the_change_is_shown(file: str, name: str, change: str) -> None:
    errors = [f for f in check_json(f"fixtures/{file}").findings(name) if f["severity"] == "error"]
    assert errors
    for finding in errors:
        assert change in finding["fix"]
        assert "(then it is the truth at all " in finding["fix"]


@pytest.mark.parametrize(("file", "name"), [(JAX, "weighted"), (JAX, "doubled_in_training")])
def test_what_no_single_change_mends_gets_none(file: str, name: str) -> None:
    """A residual that was never kept; a factor that is right in one mode and wrong in the other."""
    assert all(f["fix"] is None for f in check_json(f"fixtures/{file}").findings(name))


def made(factor: int) -> FunctionType:
    def backward(x: Any, ct: Any) -> Any:
        return ct * factor * x

    return backward


def test_a_closure_keeps_its_variables() -> None:
    function = made(3)
    tree = tree_of(function)
    assert isinstance(tree, ast.FunctionDef)
    found = {}
    for edit in edits(tree):
        with rewritten(function, edit.tree) as done, contextlib.suppress(AttributeError, TypeError):
            if done:
                found[edit.new] = function(2, 5)
    assert found["ct * factor / x"] == 5 * 3 / 2
    assert found["-(ct * factor * x)"] == -30
    assert function(2, 5) == 30  # as before


def test_two_lambdas_on_one_line_are_told_apart() -> None:
    pair = (lambda x: x + 1, lambda x: x - 1)
    trees = [tree_of(function) for function in pair]
    assert [ast.unparse(tree) for tree in trees if tree] == ["lambda x: x + 1", "lambda x: x - 1"]


def test_what_says_how_often_is_left_alone() -> None:
    tree = ast.parse("def f(n, ct):\n    while n > 2:\n        n = n - 1\n    return ct * n").body[
        0
    ]
    assert isinstance(tree, ast.FunctionDef)
    assert {edit.old for edit in edits(tree) if edit.line == 2} == set()
    assert {edit.old for edit in edits(tree) if edit.line == 3} == {"n - 1", "n", "1"}
