"""Gradients that the run did not come to, each with its reason and the line to add."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradcheck_cli.check.unreached import unreached, without_gpu
from gradcheck_cli.subject.results import Missing, Place

PLACE = Place("a.py", 3, "f")


def test_the_line_that_is_known_is_the_line_to_add() -> None:
    missing = [Missing(PLACE, "no rule", add="`f.defvjp(f_fwd, f_bwd)`"), Missing(PLACE, "no call")]
    told = [event.not_covered for event in unreached([], [], missing)]
    assert told[0].add == "`f.defvjp(f_fwd, f_bwd)`"
    assert told[1].add == "a line at module level that makes it, such as `f = …`"


def test_without_a_gpu_nothing_is_checked_and_the_framework_is_named() -> None:
    framework: Any = SimpleNamespace(name="jax", version="1.2")
    gradient: Any = SimpleNamespace(place=PLACE)
    (event,) = without_gpu([gradient], framework)
    assert event.not_covered.is_whole
    assert event.not_covered.reason == "`--device gpu`, and jax 1.2 finds no GPU here"
