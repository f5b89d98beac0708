"""Names in the target and in the settings lead to gradients, or to findings."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck_cli.check.named import Selection, against_references, is_named, named
from gradcheck_cli.check.unreached import unreached
from gradcheck_cli.contract.worker import Mark, Task
from gradcheck_cli.subject.results import Missing, Place
from tests.check.fakes import TASK, FakeFramework, FakeGradient

SOFTPLUS, INNER = FakeGradient("softplus"), FakeGradient("maker.<locals>.inner")
MODULE = ModuleType("sample")
vars(MODULE)["softplus"] = SOFTPLUS


def task(*functions: str, frameworks: tuple[str, ...] = ("jax",)) -> Task:
    marked: dict[str, list[Mark]] = {name: [] for name in frameworks}
    return replace(TASK, path="/a.py", functions=list(functions), marked=marked)


def selected(task: Task, *functions: str) -> Selection:
    framework: Any = FakeFramework(functions)
    gradients: Any = [SOFTPLUS, INNER]
    return named(MODULE, framework, task, "/a.py", gradients)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("softplus", [SOFTPLUS]),
        ("maker.<locals>.inner", [INNER]),
        ("maker.inner", [INNER]),
        ("maker", [INNER]),
    ],
)
def test_a_name_leads_to_the_gradient_or_to_what_the_function_makes(
    name: str, chosen: list[Any]
) -> None:
    assert selected(task(name)) == Selection(chosen, [])


def test_a_plain_function_is_checked_by_its_name() -> None:
    assert [g.kind for g in selected(task("plain"), "plain").gradients] == ["function"]


def test_a_name_that_leads_nowhere_is_a_finding_with_the_closest_one() -> None:
    selection = selected(task("sofplus"))
    (event,) = selection.findings
    assert selection.gradients == []
    assert event.finding.message == "there is no function `sofplus` in a.py"
    assert event.finding.help == "did you mean `softplus`?"


def test_a_name_in_other_letters_is_the_closest() -> None:
    (event,) = selected(task("Softplus")).findings
    assert event.finding.help == "did you mean `softplus`?"
    (event,) = selected(task("SOFTPLUS")).findings
    assert event.finding.help == "did you mean `softplus`?"


def test_only_the_last_framework_says_that_a_name_leads_nowhere() -> None:
    assert selected(task("nowhere", frameworks=("jax", "torch"))) == Selection([], [])


def test_a_gradient_is_held_to_its_reference() -> None:
    both: Any = [SOFTPLUS, INNER]
    selection = against_references(
        both, MODULE, replace(TASK, references={"softplus": "math:cos"}), "a.py"
    )
    first, second = selection.gradients
    assert isinstance(first, FakeGradient)
    assert (first.reference, second) == (math.cos, INNER)


def test_a_comment_at_its_definition_names_the_reference_too() -> None:
    both: Any = [SOFTPLUS, INNER]
    here = str(SOFTPLUS.place.line)
    selection = against_references(
        both, MODULE, replace(TASK, references={here: "math:cos"}), "a.py"
    )
    assert next(getattr(g, "reference", None) for g in selection.gradients) is math.cos


def test_a_reference_that_is_not_there_is_a_finding() -> None:
    gradients: Any = [SOFTPLUS]
    selection = against_references(
        gradients, MODULE, replace(TASK, references={"softplus": "math:no_such"}), "a.py"
    )
    (event,) = selection.findings
    assert selection.gradients == []
    assert "the reference `math:no_such` of `softplus` is not there: AttributeError" in event.finding.message  # fmt: skip
    assert event.finding.line == 7


def test_marks_are_named_by_themselves_or_by_what_they_stand_in() -> None:
    inner = Mark("inner", 3, "jax", "custom_vjp", scope="maker")
    assert is_named(inner, [])
    assert is_named(inner, ["maker"])
    assert is_named(inner, ["inner"])
    assert not is_named(inner, ["make"])


def test_marks_that_no_gradient_was_met_for_have_a_reason() -> None:
    marks = [
        Mark("softplus", 1, "jax", "custom_vjp"),
        Mark("gone", 2, "jax", "custom_vjp"),
        Mark("deep", 3, "jax", "custom_vjp", scope="maker"),
        Mark("shut", 4, "jax", "custom_vjp", scope="closed"),
    ]
    gradients: Any = [SOFTPLUS]
    missing = [
        Missing(Place("a.py", 4, "closed"), "it raised ValueError", is_scope=True),
        Missing(Place("a.py", 5, "other"), "it takes a key"),
    ]
    items = [event.not_covered for event in unreached(marks, gradients, missing)]
    assert [(item.gradient, item.reason) for item in items] == [
        ("other", "it takes a key"),
        ("gone", "the source defines it, but the import did not make it"),
        ("deep", "it is made inside `maker`, and calling that with guessed arguments did not make it"),
        ("shut", "it raised ValueError"),
    ]  # fmt: skip
