"""A change of a rule as an edit of its file."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from gradcheck_cli.judge.repair.patch import patch
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.project.edits import applied
from tests.judge.by_text import every_edit, module_of


def repaired(folder: Path, source: str, new: str, name: str = "rule") -> str:
    """The source with the first change whose new expression reads so."""
    function = getattr(module_of(folder, source), name)
    tree = tree_of(function)
    assert tree is not None
    change = next(edit for edit in every_edit(tree) if edit.new == new)
    written = patch(change, function)
    assert written is not None
    return applied(source, [written])


@pytest.mark.parametrize(
    ("line", "new", "after"),
    [
        ("return g * d, g*d", "-g", "return -g * d, g*d"),
        ("return g, (x[0]  +  d) * g", "-g", "return -g, (x[0]  +  d) * g"),
        ("return g - d * g", "d * g - g", "return d * g - g"),
        ("return g**d", "-g", "return (-g)**d"),
        ('return g if m == "é" else -g', "g", 'return g if m == "é" else g'),
        ("return x.sum( axis = 1 ) * g", "x.mean(axis=1)", "return x.mean(axis=1) * g"),
        ("return g  +  d", "-(g + d)", "return -(g  +  d)"),
    ],
)
def test_what_stays_is_as_it_was_written(tmp_path: Path, line: str, new: str, after: str) -> None:
    source = f"d = x = m = 1\n\n\ndef rule(g, d=d):\n    {line}\n"
    assert repaired(tmp_path, source, new).splitlines()[-1].strip() == after


def test_a_change_over_several_lines(tmp_path: Path) -> None:
    source = "def rule(g, d):\n    return (\n        g\n        + d\n    )\n"
    after = repaired(tmp_path, source, "g - d")
    scope: dict[str, Any] = {}
    exec(after, scope)
    assert scope["rule"](5, 2) == 3


def test_of_two_lambdas_on_a_line_the_right_one_is_changed(tmp_path: Path) -> None:
    source = "pair = (lambda g, d: g * d), (lambda g, d: g + d)\nrule = pair[1]\n"
    assert "(lambda g, d: g * d), (lambda g, d: g - d)" in repaired(tmp_path, source, "g - d")


SOURCE = """
def rule(residuals, g, axis=-1):
    x, w = residuals
    name = "größer"; scale = 2*x if axis else (x, w)[0]
    gw = [g * v for v in (x, w)]
    return g @ w.T + scale * 0.5 , gw[0] / (1 + x**2) - x.sum(axis = axis , keepdims=True)
"""


def test_every_change_reads_as_it_was_meant(tmp_path: Path) -> None:
    """A patch is given only where the file with it has the very tree that was tried."""
    function = module_of(tmp_path, SOURCE).rule
    assert isinstance(function, FunctionType)
    tree = tree_of(function)
    assert tree is not None
    changes = list(itertools.islice(every_edit(tree), 400))
    assert len(changes) > 100
    assert [change.new for change in changes if patch(change, function) is None] == []
