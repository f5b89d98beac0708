"""Reports where the output knows few letters."""

from __future__ import annotations

import io
import sys

import pytest

from gradcheck_cli.cli.plain_text import spell_what_is_lacking


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("ascii", b"x <= 1 - 3 probes... 2^9 ?"),
        ("latin-1", b"x <= 1 \xb7 3 probes... 2^9 ?"),
        ("utf-8", "x ≤ 1 · 3 probes… 2⁹ 語".encode()),
    ],
)
def test_what_an_encoding_lacks_is_spelled(
    encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    spell_what_is_lacking()
    sys.stdout.write("x ≤ 1 · 3 probes… 2⁹ 語")
    sys.stdout.flush()
    assert raw.getvalue() == written
