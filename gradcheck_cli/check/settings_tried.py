"""Plain arguments over all calls that were judged: those that moved, and those that had one value in each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.inputs.names import ends_iterations, is_tolerance

# What no derivative hangs on.
_NAMES = frozenset({"name", "dtype", "device", "out", "key", "rng", "seed", "generator", "precision", "verbose"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SettingsTried:
    """The plain arguments that had several values, and those of one value with it."""

    moved: tuple[str, ...]
    still: tuple[tuple[str, str], ...]


def settings_tried(outcome: GradientOutcome) -> SettingsTried:
    """The settings of a gradient, by the inputs of all its calls."""
    values: dict[str, list[str]] = {}
    arrays: set[str] = set()
    for inputs in outcome.inputs:
        for item in inputs:
            if item.dtype == "fixed" and not item.shape:
                values.setdefault(item.path, []).append(item.domain)
            else:
                arrays.add(item.path)
    plain = {path: texts for path, texts in values.items() if _varies(path, texts)}
    moved = [p for p, texts in plain.items() if len(set(texts)) > 1 or p in arrays]
    still = [(p, texts[0]) for p, texts in plain.items() if p not in moved]
    return SettingsTried(tuple(moved), tuple(still))


def _varies(path: str, texts: list[str]) -> bool:
    """Is it a number, a flag or a word of the call itself, all of which the function may mean?"""
    ends = ends_iterations(path) or is_tolerance(path)  # which only stop what has come to its limit
    return path not in _NAMES and not ends and path.isidentifier() and any(_plain(texts))


def _plain(texts: list[str]) -> Iterator[bool]:
    for text in texts:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            continue
        yield isinstance(value, (bool, int, float, str))
