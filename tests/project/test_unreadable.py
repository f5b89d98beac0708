"""A source that is no Python is told at the place where Python stops."""

from __future__ import annotations

import ast

import pytest

from gradcheck_cli.project.unreadable import no_python


def of(source: str) -> tuple[int, int | None, int | None]:
    with pytest.raises((SyntaxError, ValueError)) as raised:
        ast.parse(source)
    finding = no_python("a.py", source, raised.value)
    assert finding.message.startswith("it is not valid Python: ")
    return finding.line, finding.column, finding.end_column


def test_the_place_is_that_of_the_token() -> None:
    assert of("x = 1\ndef g(x: int -> int): ...\n") == (2, 14, 16)


def test_columns_are_counted_in_letters() -> None:
    assert of("é = 1 -> 2\n") == (1, 7, 9)


def test_of_an_expression_in_a_text_the_line_is_told() -> None:
    assert of("x = f'{a b}'\n") == (1, 1, None)


def test_what_names_no_place_has_the_first_line() -> None:
    finding = no_python("a.py", "", RecursionError("too deep"))
    assert (finding.line, finding.column, finding.end_column) == (1, 1, None)
    assert finding.message == "it is not valid Python: too deep"


def test_a_bracket_that_is_never_closed_has_one_column() -> None:
    assert of("f(1,\n") == (1, 2, 3)
