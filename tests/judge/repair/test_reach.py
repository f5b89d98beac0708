"""Places in a rule's text that can be at fault, by one run each."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from gradcheck_cli.judge.repair.edits import Edit, edits
from gradcheck_cli.judge.repair.reach import reach
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import Function
from tests.traced import ruled, traced

X, Y = np.array([0.5, -1.5, 3.0]), np.array([2.0, 0.75, -1.25])


def product(x: Any, y: Any) -> Any:
    return x * y * y


def rule(inputs: Any, ct: Any) -> Any:
    x, y = inputs
    print(end="")
    right = ct * y * y
    wrong = 0 * ct * x * y
    return right, wrong


def allowed() -> set[str]:
    m = traced(ruled(product, rule), X, Y, names=("x", "y"))
    known = reach([Trial(m, [0])], [[0, 1]])
    assert known is not None
    tree = tree_of(rule)
    assert tree is not None

    def told(edit: Edit) -> str:
        return f"{edit.line - tree.lineno}: {ast.unparse(edit.before)}"

    return {told(edit) for edit in edits(tree) if known.allows(rule, edit)}


def test_names_that_only_a_right_gradient_rests_on_are_left_alone() -> None:
    places = allowed()
    assert {"4: 0", "4: 0 * ct * x * y", "5: wrong"} <= places
    assert not {"3: ct", "3: y", "5: right"} & places


def test_what_is_done_in_place_may_be_at_fault() -> None:
    (statement,) = (n.value for n in ast.walk(_tree()) if isinstance(n, ast.Expr))
    known = reach([Trial(traced(ruled(product, rule), X, Y, names=("x", "y")), [0])], [[0, 1]])
    assert known is not None
    assert known.allows(rule, Edit(statement, statement, _tree()))


def _tree() -> Function:
    tree = tree_of(rule)
    assert tree is not None
    return tree
