"""What is turned into the type of another argument."""

from __future__ import annotations

from gradcheck_cli.clues.casts import cast_like_others, with_quantities
from gradcheck_cli.inputs.clue import Clue, Kind


def impact(cites, field, counted, mine, other, ids):
    w = counted.astype(cites.dtype)
    same = mine.astype(mine.dtype)
    return w * same * other.type_as(cites) + cast(ids, dtype=cites.dtype)


def cast(x, dtype):
    return x


def test_only_the_type_of_another_counts() -> None:
    names = ["cites", "field", "counted", "mine", "other", "ids"]
    assert cast_like_others([impact], names) == {"counted", "other", "ids"}


def extracted(retention, fill, ids, seen, slots, rows, classes, level):
    tired = retention ** (fill - 1).to(retention.dtype)
    share = where(ids > 0, seen, 0).astype(float)
    hot = one_hot(classes, 3).astype(float) * ids.float()
    safe = level.clip(0)
    few = seen < 3
    hot = hot + retention[few]
    return (
        tired
        * share
        * hot
        * (slots == 1).astype(retention.dtype)
        * retention[rows].float()
        * retention[safe]
        * level.float()
    )


def where(*parts):
    return parts


def one_hot(ids, count):
    return ids, count


def test_integers_that_become_floats_are_counted_with_unless_they_are_compared_or_places() -> None:
    names = ["fill", "ids", "seen", "slots", "rows", "classes", "level"]
    clues = {name: [Clue("test", kind=Kind.INTEGERS)] for name in names}
    found = with_quantities(clues, [extracted])
    assert [name for name in names if found[name][0].quantity] == ["fill", "ids", "seen"]
