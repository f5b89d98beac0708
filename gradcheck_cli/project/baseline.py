"""A baseline: findings that a project has known of since some day, so that only new ones fail a run.

A finding is known by its fingerprint, into which no line enters: it stays known where code moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.contract.report import Finding, Severity
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.suppressions import ALWAYS

_VERSION = 1


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings of one rule about one thing, and how many of them there may be. `reason` is the reader's."""

    path: str
    gradient: str | None
    rule: str
    fingerprint: str
    count: int = 1
    reason: str = ""

    def is_sought(self, run: Sought) -> bool:
        """Would the run have found it? What is about a gradient, only one that runs it; of a file that is gone, any would."""
        if self.path in run.gone:
            return True
        ran = self.gradient is None or not run.static
        return self.path in run.files and ran and run.selects(self.rule)


@dataclass(frozen=True, slots=True)
class Sought:
    """What a run looked for: in which files as a whole, which rules, and whether in their sources alone.

    `gone` are files that are not there any more.
    """

    files: Collection[str]
    selects: Callable[[str], bool] = lambda rule: True
    static: bool = False
    gone: Collection[str] = ()


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known, file by file."""

    version: int = _VERSION
    findings: list[Known] = []

    def updated(self, findings: Iterable[Finding], run: Sought) -> Baseline:
        """What is known once a run found these; reasons stay, and so does what it did not look for."""
        reasons = {known.fingerprint: known.reason for known in self.findings}
        found = [finding for finding in findings if can_be_known(finding)]
        counts = Counter(finding.fingerprint for finding in found)
        new = {
            f.fingerprint: Known(
                path=f.path, gradient=f.gradient, rule=f.rule, fingerprint=f.fingerprint,
                count=counts[f.fingerprint], reason=reasons.get(f.fingerprint, ""),
            )
            for f in found
        }  # fmt: skip
        elsewhere = [known for known in self.findings if not known.is_sought(run)]
        every = {known.fingerprint: known for known in elsewhere} | new
        return Baseline(findings=sorted(every.values(), key=_order))

    def gone(self, findings: Sequence[Finding], run: Sought) -> list[Known]:
        """What is known, and was not found any more by a run that looked for it, or less often."""
        counts = Counter(finding.fingerprint for finding in findings)
        return [
            known
            for known in self.findings
            if known.is_sought(run) and counts[known.fingerprint] < known.count
        ]


def can_be_known(finding: Finding) -> bool:
    """Can it stand in a baseline? What kept cgcheck from checking cannot: that is never green."""
    return finding.severity is not Severity.NOTE and find(finding.rule).family != ALWAYS


def load(path: Path) -> Baseline:
    """A baseline from its file; one that cannot be read is refused, for it would hide anything or nothing."""
    try:
        read = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except FileNotFoundError:
        raise SettingsError(f"there is no baseline {path}: --update-baseline writes one") from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsError(f"the baseline {path} cannot be read: {error}") from None
    if read.version != _VERSION:
        raise SettingsError(f"the baseline {path} has version {read.version}; this cgcheck reads {_VERSION}")  # fmt: skip
    return read


def save(path: Path, baseline: Baseline) -> None:
    """Write it so that a change of one finding is a change of a few lines."""
    text = msgspec.json.format(msgspec.json.encode(baseline), indent=2)
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise SettingsError(f"cannot write the baseline {path}: {error}") from None


def _order(known: Known) -> tuple[str, str, str, str]:
    return known.path, known.gradient or "", known.rule, known.fingerprint
