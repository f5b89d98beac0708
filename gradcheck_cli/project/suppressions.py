"""Which findings are shown, and which comments suppress nothing (`--fix` takes those out)."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.report import Finding, Suppressed, Suppressor
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.added_comments import encoding_of
from gradcheck_cli.project.comments import WHOLE_FILE, Ignore
from gradcheck_cli.project.rule_pages import find, matching, rules

# `--select` does not hide that something could not be checked: a report is never green by silence.
ALWAYS = "run"

NEVER_IGNORED = RuleName.INTERNAL_ERROR


@dataclass(frozen=True, slots=True)
class Filter:
    selected: frozenset[str] | None
    ignored: frozenset[str]

    @staticmethod
    def of(select: Sequence[str], ignore: Sequence[str]) -> Filter:
        """From the settings; unknown names are refused by the rulebook."""
        chosen = frozenset().union(*map(matching, select)) if select else None
        return Filter(chosen, frozenset().union(*map(matching, ignore)) if ignore else frozenset())

    def keep(self, findings: Iterable[Finding], ignores: Sequence[Ignore] = ()) -> list[Finding]:
        """The findings that are shown."""
        return [f for f in findings if self.selects(f.rule) and not suppressed(f, ignores)]

    def suppressed(
        self, findings: Iterable[Finding], ignores: Sequence[Ignore], display: str
    ) -> list[Suppressed]:
        """The findings about a file that would be shown but for a comment in it, or a setting for it."""
        told = (f for f in findings if self.selects(f.rule))
        hits = ((f, hit[0]) for f in told if (hit := _suppressor(f, ignores)))
        return [_as_suppressed(f, ignore, display) for f, ignore in hits]

    def selects(self, rule: str) -> bool:
        """Is the rule shown under these settings?"""
        if rule == NEVER_IGNORED:
            return True
        selected = self.selected is None or rule in self.selected or rules()[rule].family == ALWAYS
        return selected and rule not in self.ignored

    def unused(
        self, ignores: Sequence[Ignore], findings: Iterable[Finding], display: str
    ) -> list[Unused]:
        """Names in the comments of a file that suppress none of its findings; none if that is not shown."""
        if not self.selects(RuleName.UNUSED_IGNORE):
            return []
        hits = (_suppressor(f, ignores) for f in findings if self.selects(f.rule))
        used = {(ignore.line, name) for ignore, name in filter(None, hits)}
        return [
            Unused(display, ignore.line, name)
            for ignore in ignores
            for name in ignore.rules
            if ignore.line and (ignore.line, name) not in used  # the settings' own stand in no line
        ]


@dataclass(frozen=True, slots=True)
class Unused:
    """One rule's name in a comment of a file, where it suppresses nothing."""

    path: str
    line: int
    name: str

    @property
    def finding(self) -> Finding:
        """What is reported of it."""
        message = f"`ignore[{self.name}]` suppresses nothing"
        return find(RuleName.UNUSED_IGNORE).finding(self.path, self.line, message, about=self.name)


def suppressed(finding: Finding, ignores: Sequence[Ignore]) -> bool:
    """Does a comment on its line, at its gradient's definition, or for the whole file, name it?"""
    return _suppressor(finding, ignores) is not None


def _as_suppressed(finding: Finding, ignore: Ignore, path: str) -> Suppressed:
    by = Suppressor.COMMENT if ignore.line else Suppressor.SETTINGS
    reason = ignore.reason if ignore.line else None
    return Suppressed(finding=finding, by=by, path=path, line=ignore.line or None, reason=reason)


def _suppressor(finding: Finding, ignores: Sequence[Ignore]) -> tuple[Ignore, str] | None:
    """The first comment that suppresses a finding, and the name that it does so by."""
    names = (finding.rule, finding.code)
    lines = (WHOLE_FILE, finding.line, finding.gradient_line)
    here = [ignore for ignore in ignores if ignore.applies_to in lines]
    hits = ((ignore, name) for ignore in here for name in ignore.rules if name in names)
    return next(hits, None)


_COMMENT = re.compile(
    r"(?P<before>\s*)#\s*cgcheck:\s*(?P<verb>ignore(?:-file)?)\s*\[(?P<rules>[^\]]*)\](?P<rest>.*)$"
)


def without_unused(unused: Iterable[Unused], root: Path) -> int:
    """How many names were taken out; a file that changed in the meantime is left alone."""
    wanted: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for item in unused:
        wanted[item.path][item.line].add(item.name)
    return sum(_rewritten(root / path, lines) for path, lines in wanted.items())


def _rewritten(file: Path, unused: dict[int, set[str]]) -> int:
    try:
        encoding = encoding_of(file)
        lines = io.StringIO(file.read_bytes().decode(encoding), newline="").readlines()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return 0
    if max(unused) > len(lines):
        return 0
    count = 0
    for number in sorted(unused, reverse=True):  # from below: a line may go
        line = lines[number - 1]
        match = _COMMENT.search(line.rstrip("\r\n"))
        if match is None:
            continue
        names = [n.strip() for n in match["rules"].split(",")]
        kept = [n for n in names if n not in unused[number]]
        count += len(names) - len(kept)
        end = line[len(line.rstrip("\r\n")) :]
        before = line[: match.start()]
        if kept:
            comment = f"# cgcheck: {match['verb']}[{', '.join(kept)}]{match['rest']}"
            lines[number - 1] = f"{before}{match['before']}{comment}{end}"
        else:
            lines[number - 1 : number] = [before.rstrip() + end] if before.strip() else []
    file.write_bytes("".join(lines).encode(encoding))
    return count
