"""What recent runs found, by fingerprint: enough to run one finding again."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Finding, Report
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
    at: list[str]


def remember(report: Report, settings: Settings, at: Sequence[str], root: Path, cache: Path) -> None:  # fmt: skip
    """The newest last; a cache that cannot be written is no cache."""
    found = {
        f.fingerprint: Entry(
            rule=f.rule, path=f.path, gradient=f.gradient, message=f.message,
            target=_target(f, report), settings=settings, at=list(at),
        )
        for f in report.findings
        if f.fingerprint and f.gradient is not None
    }  # fmt: skip
    if not found:
        return
    file = _file(root, cache)
    kept = {k: v for k, v in _all(file).items() if k not in found} | found
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(dict(list(kept.items())[-_MOST:])))


def recalled(name: str, root: Path, cache: Path) -> tuple[str, Entry]:
    """The one finding whose fingerprint begins so."""
    known = _all(_file(root, cache))
    hits = [k for k in known if k.startswith(name.lower())] if len(name) >= _SHORTEST else []
    if len(hits) == 1:
        return hits[0], known[hits[0]]
    if hits:
        told = ", ".join(f"{k} ({known[k].rule} of {known[k].gradient})" for k in hits)
        raise UsageError(f"`{name}` may be any of {told}")
    raise UsageError(
        f"no finding `{name}` of an earlier run here: its id is under `again` in the report"
    )


def _target(finding: Finding, report: Report) -> str:
    """The function, where it can be named: a finding comes back as it was found, with all inputs."""
    gradient = next((g for g in report.gradients if g.qualname == finding.gradient), None)
    command = shlex.split(finding.reproduce or "")  # cgcheck TARGET …
    if len(command) > 1:
        return command[1]
    return gradient.path if gradient is not None else finding.path


def _file(root: Path, cache: Path) -> Path:
    return (
        cache / "findings" / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:24]}.json"
    )


def _all(file: Path) -> dict[str, Entry]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Entry])
    except (OSError, msgspec.MsgspecError):
        return {}
