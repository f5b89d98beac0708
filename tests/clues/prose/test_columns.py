"""Entries in two columns: the names in the first, what is said of them in the second."""

from __future__ import annotations

from gradcheck_cli.clues.prose.columns import with_colons
from gradcheck_cli.clues.prose.passages import passages

NAMES = ["rate", "k", "alpha", "path_km"]
TEXT = """Rain attenuation of slant paths.

rate     rain rate in mm/h, > 0 (dry samples are dropped)
k, alpha power-law coefficients of the band
path_km  length below the rain height,
         >= 0
"""


def test_each_row_of_a_table_becomes_an_entry() -> None:
    rows = with_colons(TEXT, NAMES).splitlines()
    assert rows[2].startswith("rate: rain rate in mm/h, > 0")
    assert rows[3] == "k, alpha: power-law coefficients of the band"
    said = {name: [p.after for p in passages(TEXT, name, NAMES) if p.entry] for name in NAMES}
    assert said["path_km"] == ["length below the rain height, >= 0"]
    assert said["k"] == said["alpha"] == ["power-law coefficients of the band"]


def test_a_sentence_further_down_is_none_of_its_rows() -> None:
    rows = with_colons("rate  per hour\nk     of the band\n\nrate is kept.", NAMES).splitlines()
    assert rows == ["rate: per hour", "k: of the band", "", "rate is kept."]


def test_what_is_no_table_stays_as_it_is() -> None:
    for text in (
        "rate  alone in its row",
        "rate of rain\nk of the band",  # a sentence of which lines begin with names
        "rate     : per hour\nk        : of the band",
        "rate   per hour\n  k   of the band",  # one is deeper
        "rate  > 0   slow\nrate  < 0   at once",  # cases
        "rate  positive   slow\nk     positive   steep\nrate  negative   at once",
        "rate  > 0\nk     > 0",
    ):
        assert with_colons(text, NAMES) == text
