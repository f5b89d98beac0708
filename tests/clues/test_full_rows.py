"""What a text promises of the rows of a mask."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.full_rows import rows_are_full


def _with(text: str) -> object:
    def f(x: object, mask: object) -> None: ...

    f.__doc__ = text
    return f


@pytest.mark.parametrize(
    ("text", "promised"),
    [
        ("mask: (b, n) bool, at least one per row", True),
        ("mask: (b, n) bool; no row is entirely false", True),
        ("Every row has some valid entry.", True),
        ("mask: (b, n) bool, non-empty rows", True),
        ("mask: (b, n) bool; rows without a true entry give 0", False),
        ("mask: (b, n) bool of what counts", False),
    ],
)
def test_rows_are_full_where_words_say_so(text: str, promised: bool) -> None:
    assert rows_are_full(_with(text)) is promised  # type: ignore[arg-type]
