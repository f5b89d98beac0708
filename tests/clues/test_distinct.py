"""Promises that no two places of a table are one."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.distinct import places_are_distinct


def put(base, vals, ids):
    i, j = ids
    return base.at[i, j].set(vals)


def added(base, vals, ids):
    """Adds values at cells, no two of them the same."""
    i, j = ids
    return base.at[i, j].add(vals)


def read(base, ids):
    """The values at cells."""
    i, j = ids
    return base[i, j]


@pytest.mark.parametrize(("function", "promised"), [(put, True), (added, True), (read, False)])
def test_words_promise_it_and_so_does_what_overwrites(function, promised: bool) -> None:
    assert places_are_distinct(function) is promised
