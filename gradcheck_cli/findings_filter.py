"""Which findings are shown: selected rules, minus ignored ones, minus suppressed lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.comments import Ignore
from gradcheck_cli.rulebook import matching
from gradcheck_cli.words import Finding

# Never deselected by accident: without them a report could be green by silence.
ALWAYS = frozenset({"internal-error"})


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
        return [f for f in findings if self._selects(f.rule) and not _suppressed(f, ignores, used)]

    def _selects(self, rule: str) -> bool:
        if rule in ALWAYS:
            return True
        return (self.selected is None or rule in self.selected) and rule not in self.ignored


def _suppressed(finding: Finding, ignores: Sequence[Ignore], used: set[tuple[int, str]]) -> bool:
    for ignore in ignores:
        if finding.line != ignore.applies_to:
            continue
        for rule in ignore.rules:
            if rule in (finding.rule, finding.code):
                used.add((ignore.line, rule))
                return True
    return False
