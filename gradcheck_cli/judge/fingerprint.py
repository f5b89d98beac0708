"""Where findings of one gradient are shown, and what makes two findings the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Site:
    """Where findings of one gradient are shown."""

    path: str
    line: int
    column: int
    end_column: int
    qualname: str
    target: str
    root: str = ""
    header_end: int = 0  # the last line of the statement that defines it


def fingerprint(rule: str, site: Site, cause: str, number: int) -> str:
    """Stable over edits: neither numbers at the witness nor lines enter."""
    text = "|".join((rule, site.path, site.qualname, cause, str(number)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
