"""Gradients that the run did not come to, each with its reason and the line to add."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gradcheck_cli.check.unreached import unreached, without_gpu
from gradcheck_cli.contract.worker import Mark
from gradcheck_cli.subject.results import Missing, Place

PLACE = Place("a.py", 3, "f")


def test_the_line_that_is_known_is_the_line_to_add() -> None:
    missing = [Missing(PLACE, "no rule", add="`f.defvjp(f_fwd, f_bwd)`"), Missing(PLACE, "no call")]
    told = [event.not_covered for event in unreached([], [], missing)]
    assert told[0].add == "`f.defvjp(f_fwd, f_bwd)`"
    assert told[1].add is None


@pytest.mark.parametrize(
    ("scope", "add"),
    [("", None), ("make", "a line at module level that makes it, such as `f = …`")],
)
def test_what_a_function_makes_wants_a_line_that_calls_it(scope: str, add: str | None) -> None:
    marks = [Mark("f", 5, "jax", "custom_vjp", scope)]
    assert [event.not_covered.add for event in unreached(marks, [], [])] == [add]


def _met(qualname: str, definition: str = "") -> Any:
    place = Place("a.py", 1, qualname, definition=definition)
    return SimpleNamespace(place=place, rule_code=lambda: ())


@pytest.mark.parametrize(
    ("met", "told"),
    [
        (_met("simulate", "simulate.<locals>.custom_root"), []),
        (_met("simulate"), []),
        (_met("other"), ["simulate.step"]),
    ],
)
def test_a_solution_is_judged_where_the_function_around_it_is(met: Any, told: list[str]) -> None:
    mark = Mark("custom_root", 5, "jax", "custom_root", "simulate.step")
    events = [event.not_covered for event in unreached([mark], [met], [])]
    assert [event.gradient for event in events] == told
    assert all("`custom_root` (line 5)" in event.reason for event in events)


def test_without_a_gpu_nothing_is_checked_and_the_framework_is_named() -> None:
    framework: Any = SimpleNamespace(name="jax", version="1.2")
    gradient: Any = SimpleNamespace(place=PLACE)
    (event,) = without_gpu([gradient], framework)
    assert event.not_covered.is_whole
    assert event.not_covered.reason == "`--device gpu`, and jax 1.2 finds no GPU here"
