"""What is turned into the type of another argument."""

from __future__ import annotations

from gradcheck_cli.clues.casts import cast_like_others


def impact(cites, field, counted, mine, other, ids):
    w = counted.astype(cites.dtype)
    same = mine.astype(mine.dtype)
    return w * same * other.type_as(cites) + cast(ids, dtype=cites.dtype)


def cast(x, dtype):
    return x


def test_only_the_type_of_another_counts() -> None:
    names = ["cites", "field", "counted", "mine", "other", "ids"]
    assert cast_like_others([impact], names) == {"counted", "other", "ids"}
