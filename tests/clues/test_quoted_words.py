"""Words that a text quotes beside an option's default."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.clues.quoted_words import clues
from gradcheck_cli.inputs.signature import Parameter


def modulated(x: Any, depth: Any, mode: str = "add") -> None:
    """Modulation of x by depth; 'add' keeps the dry signal, "mix" crossfades to the wet one."""


def two(x: Any, mode: str = "add", pad: str = "same") -> None:
    """Sums; 'add' or 'same' or 'mix'."""


def found(function: Any, **defaults: Any) -> dict[str, tuple[object, ...]]:
    parameters = [
        Parameter(name, i, True, False, default=value)
        for i, (name, value) in enumerate(defaults.items())
    ]
    return {name: clue.values for name, clue in clues(function, parameters).items()}


def test_the_default_comes_first() -> None:
    assert found(modulated, mode="add") == {"mode": ("add", "mix")}
    assert found(modulated, mode="mix") == {"mode": ("mix", "add")}


def test_what_it_does_not_quote_or_quotes_of_two_says_nothing() -> None:
    assert found(modulated, mode="gate", depth=0.5) == {}
    assert found(two, mode="add", pad="same") == {}
