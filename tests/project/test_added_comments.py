"""Comments that are put above definitions: heard there, on a line of their own, never a second one."""

from __future__ import annotations

from pathlib import Path

from gradcheck_cli.project.added_comments import Addition, edited, encoding_of
from gradcheck_cli.project.comments import parse

SOURCE = """import jax


class Layer:
    @staged
    @jax.custom_vjp
    def f(x, w):
        return x * w


def g(x):  # cgcheck: x=f32[n]
    return x
"""


def test_a_comment_stands_above_the_decorators_with_their_indent_and_is_heard() -> None:
    answer = edited(SOURCE, [Addition(5, 7, "x=f32[b n], w=f32[n]")])
    assert "class Layer:\n    # cgcheck: x=f32[b n], w=f32[n]\n    @staged\n" in answer.source
    assert answer.outcomes == ["`# cgcheck: x=f32[b n], w=f32[n]` above line 5"]
    heard = {item.applies_to: item.text for item in parse(answer.source).inputs}
    assert heard == {6: "x=f32[b n], w=f32[n]", 12: "x=f32[n]"}


def test_a_definition_that_has_inputs_is_left_alone() -> None:
    answer = edited(SOURCE, [Addition(11, 11, "x=f32[b n]")])
    assert answer.source == SOURCE
    assert answer.outcomes == ["nothing is written: line 11 has inputs already, `x=f32[n]`"]
    inside = SOURCE.replace("def f(x, w):", "def f(x, w):  # cgcheck: x=f32[n]")
    assert edited(inside, [Addition(5, 7, "x=f32[b n]")]).source == inside


def test_several_at_once_and_one_definition_twice() -> None:
    source = "def f(x): ...\ndef g(x): ...\n"
    rows = [Addition(1, 1, "x=f32[n]"), Addition(2, 2, "x=f32[b n]"), Addition(1, 1, "x=f32[n]"), Addition(2, 2, "x=f32[]")]  # fmt: skip
    answer = edited(source, rows)
    assert answer.source == (
        "# cgcheck: x=f32[n]\ndef f(x): ...\n# cgcheck: x=f32[b n]\ndef g(x): ...\n"
    )
    assert answer.outcomes[2:] == [
        "written above line 1 already",
        "nothing is written: line 2 has inputs already, `x=f32[b n]`",
    ]


def test_line_ends_and_form_feeds_stay() -> None:
    source = "a = 1\r\n\f\r\ndef f(x):\r\n    ...\r\n"
    answer = edited(source, [Addition(3, 3, "x=f32[n]")])
    assert answer.source == "a = 1\r\n\f\r\n# cgcheck: x=f32[n]\r\ndef f(x):\r\n    ...\r\n"


def test_the_encoding_is_the_one_that_the_file_declares(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"# coding: latin-1\n# \xe9\n")
    assert encoding_of(tmp_path / "a.py") == "iso-8859-1"
