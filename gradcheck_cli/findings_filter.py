"""Which findings are shown: selected rules, minus ignored ones, minus suppressed lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.comments import WHOLE_FILE, Ignore
from gradcheck_cli.rule_names import RuleName
from gradcheck_cli.rulebook import matching, rules
from gradcheck_cli.words import Finding

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
