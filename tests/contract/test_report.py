"""What the structs of the report say of themselves."""

from __future__ import annotations

import msgspec

from gradcheck_cli.contract.report import NotCovered


def test_a_gradient_that_was_not_checked_at_all_is_told_from_one_checked_in_part() -> None:
    whole = NotCovered.whole("f", "its worker died")
    wire = msgspec.json.encode(whole)
    text = b'{"gradient":"f","law":null,"what":"the whole gradient","reason":"its worker died","add":null,"path":null}'
    assert wire == text
    assert msgspec.json.decode(wire, type=NotCovered).is_whole
    assert not NotCovered(gradient="f", law=None, what="3 of 7 probes", reason="dear").is_whole
