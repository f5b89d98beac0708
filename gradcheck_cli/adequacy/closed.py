"""Arms of the user's text that no judged signature takes, as changes that nobody would have seen."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.adequacy.change import Change, Key, Kind, Part, Showing
from gradcheck_cli.adequacy.showings import Showings
from gradcheck_cli.clues.arms import Arm


def closed(arms: Iterable[Arm]) -> Showings:
    """Each arm as a branch that is never taken."""
    return Showings({_never(arm): Showing.UNSEEN for arm in arms if not arm.opens_otherwise})


def _never(arm: Arm) -> Change:
    line, column = arm.test.start
    key = Key(Part.RULE, arm.path, line, column, "if", 0, Kind.BRANCH, arm.words)
    return Change(key, f"what runs only where {arm.words}", None, None)
