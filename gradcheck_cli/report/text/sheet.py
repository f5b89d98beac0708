"""What lines of a page are written on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli.report.text.first_words import FirstWords


@dataclass(frozen=True, slots=True)
class Sheet:
    """Where sources are read, how wide it is, how much is told, and the words explained so far."""

    root: Path
    width: int
    verbose: bool
    words: FirstWords = field(default_factory=FirstWords)
