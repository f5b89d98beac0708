"""Which findings are shown, and which comments suppress nothing (`--fix` takes those out)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName
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

    def keep(
        self, findings: Sequence[Finding], ignores: Sequence[Ignore], used: set[tuple[int, str]]
    ) -> list[Finding]:
        """The findings that remain; suppressions that did something are added to `used`."""
        return [f for f in findings if self._selects(f.rule) and not suppressed(f, ignores, used)]

    def _selects(self, rule: str) -> bool:
        if rule == NEVER_IGNORED:
            return True
        selected = self.selected is None or rule in self.selected or rules()[rule].family == ALWAYS
        return selected and rule not in self.ignored


def suppressed(
    finding: Finding, ignores: Sequence[Ignore], used: set[tuple[int, str]] | None = None
) -> bool:
    """Does a comment on its line, or for the whole file, name it? Those that do are added to `used`."""
    for ignore in ignores:
        if ignore.applies_to not in (WHOLE_FILE, finding.line):
            continue
        for rule in ignore.rules:
            if rule in (finding.rule, finding.code):
                if used is not None:
                    used.add((ignore.line, rule))
                return True
    return False


def unused(ignores: Sequence[Ignore], used: set[tuple[int, str]], display: str) -> list[Finding]:
    """Suppressions that suppressed nothing."""
    rule = find(RuleName.UNUSED_IGNORE)
    return [
        rule.finding(display, ignore.line, f"`ignore[{name}]` suppresses nothing", about=name)
        for ignore in ignores
        for name in ignore.rules
        if ignore.line and (ignore.line, name) not in used  # the settings' own stand in no line
    ]


_NAME = re.compile(r"`ignore\[(?P<name>[^\]]+)\]`")

_COMMENT = re.compile(
    r"(?P<before>\s*)#\s*cgcheck:\s*(?P<verb>ignore(?:-file)?)\s*\[(?P<rules>[^\]]*)\](?P<rest>.*)$"
)


def without_unused(findings: Sequence[Finding], root: Path) -> int:
    """How many names were taken out; a file that changed in the meantime is left alone."""
    wanted: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        match = _NAME.search(finding.message)
        if finding.rule == RuleName.UNUSED_IGNORE and match is not None:
            wanted[finding.path][finding.line].add(match["name"])
    return sum(_rewritten(root / path, lines) for path, lines in wanted.items())


def _rewritten(file: Path, unused: dict[int, set[str]]) -> int:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
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
    file.write_text("".join(lines), encoding="utf-8")
    return count
