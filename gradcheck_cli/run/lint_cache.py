"""What the linter said of sources before, by their content: what has not changed is not read again.

The findings of a source depend on its text, on how its file is shown, and on the linter with its pages; a cache file
belongs to one state of these. A cache that cannot be read or written is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.project import rule_pages
from gradcheck_cli.project.cache_folder import drop, held, keep
from gradcheck_cli.project.comments import Ignore
from gradcheck_cli.run.state import digest, state_of

_MOST_STATES = 4  # of the linter, whose cache files are kept
_MOST = 100_000  # sources that are remembered: of more, the oldest go

Said = tuple[tuple[Finding, ...], tuple[Ignore, ...]]


class LintCache:
    """Findings and suppressions by content, loaded at once and saved at the end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lint" / f"{state_of(_parts())}.msgpack"
        self._held: dict[str, bytes] = {}
        self._new: dict[str, bytes] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._held = msgspec.msgpack.decode(self._path.read_bytes(), type=dict[str, bytes])

    def get(self, key: str) -> Said | None:
        """What was said of it; None if nothing was."""
        data = self._held.get(key)
        if data is None:
            return None
        try:
            said: Said = msgspec.msgpack.decode(data, type=Said)
        except msgspec.MsgspecError:
            return None
        return said

    def put(self, key: str, said: Said) -> None:
        self._new[key] = msgspec.msgpack.encode(said)

    def save(self) -> None:
        """Write what is new beside what was there, as a whole or not at all."""
        if not self._new:
            return
        kept = list({**self._held, **self._new}.items())[-_MOST:]
        keep(self._path, msgspec.msgpack.encode(dict(kept)))
        drop(path for path, _ in list(held(self._path.parent))[_MOST_STATES:])


def key_of(display: str, content: str) -> str:
    """The name of a source in the cache, by that of its content."""
    return digest(display.encode(), content.encode())


def _parts() -> Iterator[Path]:
    """The files that the linter is made of."""
    yield Path(__file__)
    yield from (Path(__file__).parent.parent / "lint").rglob("*.py")
    yield from rule_pages.folder().glob("*/*.md")
