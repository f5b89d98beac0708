"""What a rule returns for an argument, in its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.judge.source.returned import returned_for
from tests.judge.by_text import Rule, module_of


def shown(
    folder: Path, body: str, argument: str | None, traced: int = 0, **about: Any
) -> str | None:
    """The text at the place that is found, where a line was traced, too."""
    source = "def rule(saved, g):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    module = module_of(folder, source)
    lines_that_ran = frozenset({(module.rule.__code__.co_filename, traced)})
    found = returned_for(Rule([module.rule], **about), argument, lines_that_ran)
    if found is None:
        return None
    lines, span = source.split("\n"), found.span
    assert span.line == span.end_line
    return lines[span.line - 1][span.column - 1 : span.end_column - 1]


@pytest.mark.parametrize(
    ("body", "argument", "text"),
    [
        ("return g * 2, g * 3", "w", "g * 3"),
        ("return g * 2, g * 3, None", "w", "g * 3"),
        ("return None, g", "x", "None"),
        ("dw = g.sum(0)\nreturn g, dw", "w", "g.sum(0)"),
        ("dw = g\ndw = dw * 2\nreturn g, dw", "w", "dw * 2"),
        ("dw = g\nif saved:\n    dw = dw * 2\nreturn g, dw", "w", "dw"),
        ("dw, dx = g\nreturn dx, dw", "w", "dw"),
        ("dw = g\ndw += 2\nreturn g, dw", "w", "dw"),
        ("both = (g * 2, g * 3)\nreturn both", "w", "g * 3"),
        ('é = "ö"; return g * 2, {"a": g, "b": -g}', "w['b']", "-g"),
        ("return g * 2, (g, -g)", "w[1]", "-g"),
        ("return g * 2, (g, -g)", "w[0]['a']", "g"),
        ("if saved:\n    return g, 1 * g\nreturn g, 2 * g", "w", "2 * g"),
        ("return (*g, 1)", "w", None),
        ("return saved(g)", "w", None),
    ],
)
def test_the_expression_for_an_argument(
    tmp_path: Path, body: str, argument: str, text: str | None
) -> None:
    assert shown(tmp_path, body, argument) == text


@pytest.mark.parametrize(
    "body",
    [
        "if saved:\n    return g, 1 * g\nreturn g, 2 * g",
        "if saved:\n    dw = 1 * g\nelse:\n    dw = 2 * g\nreturn g, dw",
    ],
)
def test_of_two_branches_it_is_in_the_one_that_was_traced(tmp_path: Path, body: str) -> None:
    assert shown(tmp_path, body, "w", traced=3) == "1 * g"


def test_where_none_was_traced_the_cotangent_was_handed_on(tmp_path: Path) -> None:
    assert shown(tmp_path, "if saved:\n    return g, g\nreturn g, 2 * g", "w", traced=99) == "g"


def test_of_one_argument_it_is_the_whole(tmp_path: Path) -> None:
    assert shown(tmp_path, "return g * 2", None, names=("x",)) == "g * 2"


def test_of_a_forward_rule_it_is_the_tangent(tmp_path: Path) -> None:
    assert shown(tmp_path, "return saved * 2, g * 3", "x", kind="custom_jvp") == "g * 3"


def test_of_a_rule_for_one_argument_it_is_the_tangent_alone(tmp_path: Path) -> None:
    source = "rules = lambda t, y, x, w: t * w, lambda t, y, x, w: (\n    t * x)\n"
    module = module_of(tmp_path, source)
    rule = Rule(list(module.rules), names=("x", "w"), kind="custom_jvp")
    places = [returned_for(rule, argument) for argument in ("x", "w")]
    assert [place and place.span.line for place in places] == [1, 2]
    assert returned_for(Rule([module.rules[0]], names=("x",), kind="custom_jvp"), None) is None


def test_of_a_function_that_returns_its_rule_it_is_what_that_returns(tmp_path: Path) -> None:
    body = "def grad(up):\n    return up, 2 * up\nreturn saved, grad"
    assert shown(tmp_path, body, "w") == "2 * up"
