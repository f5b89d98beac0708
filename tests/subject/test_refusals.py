"""Of calls that a function refuses the one is told that came furthest in it."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.subject.refusals import NO_CALL, Furthest, progress


def raised(x: Any) -> Exception:
    try:
        assert len(x) > 1
        return x.nothing
    except (AssertionError, AttributeError) as error:
        return error


def test_what_raises_later_came_further() -> None:
    early, late = (progress(raised(x), __file__) for x in ([], [1, 2]))
    assert 0 < early < late
    assert progress(raised([]), "another.py") == 0
    assert progress(ValueError("raised nowhere"), __file__) == 0


def test_of_calls_that_came_as_far_the_first_stays() -> None:
    first, same, later = Furthest("first", 4), Furthest("same", 4), Furthest("later", 5)
    assert NO_CALL.or_further(first).or_further(same) == first
    assert first.or_further(later).or_further(same) == later
