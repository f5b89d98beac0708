"""What the user says of a gradient, by a line of its definition or by its name."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck_cli.check.user_says import Statement, user_says
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.project.intent_specs import Declared
from tests.check.fakes import TASK, FakeGradient

NO_HINTS = Hints(keys={}, unpacked={}, functions=[])
SITE = Site("a.py", 9, 5, 6, "made.<locals>.f", "a.py", header_end=11)


def statement(
    inputs: dict[str, str] | None = None, expects: dict[str, str] | None = None
) -> Statement:
    gradient: Any = FakeGradient("made.<locals>.f", ("x", "alpha"))  # its place begins at line 7
    task = replace(TASK, inputs=inputs or {}, expects=expects or {})
    return user_says(NO_HINTS, gradient, task, SITE)


def test_silence_leaves_the_hints_as_they_are() -> None:
    assert statement() == Statement(NO_HINTS, [], [])


@pytest.mark.parametrize(
    ("key", "source"),
    [("7", "the comment for line 7"), ("11", "the comment for line 11"), ("f", "the settings"), ("made.<locals>.f", "the settings")],
)  # fmt: skip
def test_inputs_are_heard_from_its_decorators_to_its_header_and_by_name(
    key: str, source: str
) -> None:
    hints = statement({key: "x=f32[n]"}).hints
    assert (list(hints.specs), hints.spec_source) == (["x"], source)


@pytest.mark.parametrize("key", ["6", "12", "g"])
def test_what_is_said_of_others_is_not_heard(key: str) -> None:
    assert statement({key: "x=f32[n]"}, {key: "expect(gauge)"}) == Statement(NO_HINTS, [], [])


def test_intents_of_all_places_count_and_a_domain_is_a_hint() -> None:
    both = statement(None, {"9": "expect(scaled=-1.0)", "f": "expect(domain: x > 0)"})
    assert set(both.intents) == {Declared("scaled", "-1.0"), Declared("domain", "x > 0")}
    assert list(both.hints.domains) == ["x"]
    assert NO_HINTS.domains == {}


def test_an_argument_that_it_does_not_take_is_a_warning() -> None:
    (finding,) = statement({"f": "beta=f32[n]"}).findings
    assert finding.severity is Severity.WARNING
    assert finding.message == "the inputs speak of `beta`; it takes x, alpha"
