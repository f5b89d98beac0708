"""A function runs other source for a while."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from gradcheck_cli.judge.source.rewritten import rewritten, tree_of
from tests.judge.by_text import every_edit


def with_factor(factor: int) -> FunctionType:
    def backward(x: Any, ct: Any) -> Any:
        return ct * factor * x

    return backward


def tree_from(source: str) -> ast.FunctionDef:
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def test_a_closure_keeps_its_variables() -> None:
    function = with_factor(3)
    tree = tree_of(function)
    assert isinstance(tree, ast.FunctionDef)
    results = {}
    for edit in every_edit(tree):
        with rewritten(function, edit.tree) as runs, contextlib.suppress(AttributeError, TypeError):
            if runs:
                results[edit.new] = function(2, 5)
    assert results["ct * factor / x"] == 5 * 3 / 2
    assert results["-(ct * factor * x)"] == -30
    assert function(2, 5) == 30  # as before


def test_after_an_error_the_function_is_as_before() -> None:
    function = with_factor(3)
    broken = tree_from("def backward(x, ct): return factor / 0")
    with pytest.raises(ZeroDivisionError), rewritten(function, broken):
        function(2, 5)
    assert function(2, 5) == 30


def test_other_variables_than_it_closes_over_cannot_be_written_in() -> None:
    function = with_factor(3)
    with rewritten(function, tree_from("def backward(x, ct): return ct")) as runs:
        assert not runs
        assert function(2, 5) == 30


def test_a_text_that_is_no_code_is_refused() -> None:
    with rewritten(with_factor(3), tree_from("def backward(x, x): return factor")) as runs:
        assert not runs


def test_two_lambdas_on_one_line_are_told_apart() -> None:
    pair = (lambda x: x + 1, lambda x: x - 1)
    trees = [tree_of(function) for function in pair]
    assert [ast.unparse(tree) for tree in trees if tree] == ["lambda x: x + 1", "lambda x: x - 1"]


def test_two_equal_lambdas_on_one_line_are_told_apart_by_their_places() -> None:
    pair = (lambda x: x + 1, lambda x: x + 1)
    columns = [tree.col_offset for tree in map(tree_of, pair) if tree is not None]
    assert len(set(columns)) == 2
    placeless = [f.__code__.replace(co_linetable=b"") for f in pair]
    assert [tree_of(FunctionType(code, {})) for code in placeless] == [None, None]


def test_lambdas_that_call_what_their_module_imports_are_told_apart(tmp_path: Path) -> None:
    """Python compiles a call of an imported module's function otherwise where it sees the import."""
    (tmp_path / "pair.py").write_text(
        "import math\nrule = (lambda x: x, lambda _, g: g * math.sin(g))\n"
    )
    scope: dict[str, Any] = {}
    exec(compile((tmp_path / "pair.py").read_text(), str(tmp_path / "pair.py"), "exec"), scope)
    trees = [tree_of(function) for function in scope["rule"]]
    assert [ast.unparse(tree) for tree in trees if tree] == [
        "lambda x: x",
        "lambda _, g: g * math.sin(g)",
    ]


def test_a_decorated_function_is_found_by_its_first_line() -> None:
    @contextlib.contextmanager
    def decorated() -> Any:
        yield 1

    function: Any = vars(decorated)["__wrapped__"]
    tree = tree_of(function)
    assert isinstance(tree, ast.FunctionDef)
    assert tree.name == "decorated"


def test_a_function_without_a_file_has_no_tree() -> None:
    scope: dict[str, Any] = {}
    exec("def made(x): return x", scope)
    assert tree_of(scope["made"]) is None
