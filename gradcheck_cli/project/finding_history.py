"""What recent runs found, by fingerprint: enough to run one finding again."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.project.settings import Settings

_MOST = 2000
_SHORTEST = 4


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, and the run that made it."""

    rule: str
    path: str
    gradient: str | None
    message: str
    target: str
    settings: Settings
    at: list[AskedPoint]


def entries(
    report: Report, targets: Mapping[str, str], settings: Settings, at: Sequence[AskedPoint]
) -> dict[str, Entry]:
    """An entry for each finding about a gradient; `targets` say by fingerprint what to check again."""
    return {
        f.fingerprint: Entry(
            rule=f.rule, path=f.path, gradient=f.gradient, message=f.message,
            target=targets[f.fingerprint], settings=settings, at=list(at),
        )
        for f in report.findings
        if f.fingerprint and f.gradient is not None
    }  # fmt: skip


def remember(new: Mapping[str, Entry], root: Path, cache: Path) -> None:
    """Add findings to the history, the newest last; a cache that cannot be written is no cache."""
    if not new:
        return
    file = _file(root, cache)
    older = {k: v for k, v in _all(file).items() if k not in new}
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(dict(list((older | dict(new)).items())[-_MOST:])))


def look_up(name: str, root: Path, cache: Path) -> tuple[str, Entry]:
    """The one finding whose fingerprint begins so."""
    history = _all(_file(root, cache))
    hits = [k for k in history if k.startswith(name.lower())] if len(name) >= _SHORTEST else []
    if len(hits) == 1:
        return hits[0], history[hits[0]]
    if hits:
        each = ", ".join(f"{k} ({history[k].rule} of {history[k].gradient})" for k in hits)
        raise UsageError(f"`{name}` may be any of {each}")
    raise UsageError(
        f"no finding `{name}` of an earlier run here: its id is under `again` in the report"
    )


def _file(root: Path, cache: Path) -> Path:
    return (
        cache / "findings" / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:24]}.json"
    )


def _all(file: Path) -> dict[str, Entry]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Entry])
    except (OSError, msgspec.MsgspecError):
        return {}
