"""Intents as text: what is read, and what is wrong with what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.project.comments import parse as parse_comments
from gradcheck_cli.project.intent_specs import FORMS, Declared, IntentError, parse
from gradcheck_cli.project.settings import parse as parse_settings

ROOT = Path(__file__).parents[2]


def test_several_stand_in_one_comment() -> None:
    assert parse("expect(scaled=-1.0), expect(zero: alpha) expect(domain: x in (0, 1])") == [
        Declared("scaled", "-1.0"),
        Declared("zero", "alpha"),
        Declared("domain", "x in (0, 1]"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("expect(straight-trough)", "did you mean `straight-through`"),
        ("expect(scaled=2x)", "`2x` is no number"),
        ("expect(zero)", "wants an argument"),
        ("expect(clipped: 1)", "takes nothing more"),
        ("expect(safe-at: 0)", "wants a place"),
        ("expect(domain: x near 0)", "write `in"),
        ("expect straight-through", "write `expect"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(IntentError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_inputs_and_intents_stand_in_one_comment() -> None:
    comments = parse_comments(
        "def f(a):  # cgcheck: a=f32[n n], expect(gauge), b=i32[n] in 0..n  # x\n"
    )
    assert [s.text for s in comments.inputs] == ["a=f32[n n], b=i32[n] in 0..n"]
    assert [s.text for s in comments.expects] == ["expect(gauge)"]
    assert not comments.malformed


def test_the_settings_are_read_in_the_same_words() -> None:
    settings = parse_settings({"expects": {"rounded": "expect(straight-through)"}}, "here")
    assert settings.expects == {"rounded": "expect(straight-through)"}
    with pytest.raises(SettingsError, match="no intent is called `straight`"):
        parse_settings({"expects": {"rounded": "expect(straight)"}}, "here")


def test_a_comment_names_the_function_that_a_rule_is_to_differentiate() -> None:
    source = "@rule  # cgcheck: reference(plain.ops:gelu)\ndef f(x): ...\n# cgcheck: reference(own)\ndef g(x): ...\n"
    comments = parse_comments(source)
    assert [(r.applies_to, r.text) for r in comments.references] == [
        (1, "plain.ops:gelu"),
        (4, "own"),
    ]
    assert not comments.malformed


@pytest.mark.parametrize("inside", ["", "plain ops", "plain:"])
def test_a_reference_that_names_no_function_means_nothing(inside: str) -> None:
    (malformed,) = parse_comments(f"def f(x): ...  # cgcheck: reference({inside})\n").malformed
    assert malformed.problem == "name the function: `reference(module:function)`"


def test_the_guide_lists_every_intent_with_its_law() -> None:
    guide = (ROOT / "docs" / "do" / "intents.md").read_text(encoding="utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("| `expect(")]
    assert len(rows) == len(FORMS)
    for row, form in zip(rows, FORMS.values(), strict=True):
        assert row.startswith(f"| `expect({form.example})`") and row.endswith(f"| {form.law} |")


def test_prose_may_begin_with_the_name() -> None:
    assert not parse_comments("x = 1  # cgcheck expects a number here\n").malformed
