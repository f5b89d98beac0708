"""Each change with what judged inputs made of it: what adds up over the signatures of a gradient."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from gradcheck_cli.adequacy.change import Change, Showing
from gradcheck_cli.adequacy.richness import Richness


@dataclass(frozen=True, slots=True)
class Showings:
    """Each change with what judged inputs made of it, over all signatures that were judged."""

    showings: dict[Change, Showing] = field(default_factory=dict)
    not_covered: tuple[str, ...] = ()

    def __add__(self, more: Showings) -> Showings:
        """The union: a change shows if it shows at any signature."""
        ours, theirs = self._settled_by(more), more._settled_by(self)
        by_key = {change.key: change for change in ours}
        both = dict(ours)
        for change, showing in theirs.items():
            earlier = by_key.setdefault(change.key, change)
            both[earlier] = max(both.get(earlier, showing), showing)
        reasons = tuple(dict.fromkeys((*self.not_covered, *more.not_covered)))
        return Showings(both, reasons)

    def _settled_by(self, other: Showings) -> dict[Change, Showing]:
        """What was degenerate here, and at the shapes of the other was not, is no question any more."""
        there = other.richness
        return {
            change: Showing.EQUAL
            if showing is Showing.DEGENERATE and there.settles(change.key.place, change.kind)
            else showing
            for change, showing in self.showings.items()
        }

    @property
    def richness(self) -> Richness:
        """The changes that these shapes allow, and those that they leave open."""
        degenerate = {(c.key.place, c.kind) for c in self.degenerate}
        changes = (c for c, showing in self.showings.items() if showing is not Showing.TAKEN)
        every = {(c.key.place, c.kind) for c in changes}
        return Richness(frozenset(every - degenerate), frozenset(degenerate))

    def without(self, dropped: Set[Change]) -> Showings:
        """Fewer changes: those that no shape of the function would show leave the count."""
        kept = {c: s for c, s in self.showings.items() if c not in dropped}
        return Showings(kept, self.not_covered)

    def count(self, showing: Showing) -> int:
        return sum(s is showing for s in self.showings.values())

    @property
    def shown(self) -> int:
        return self.count(Showing.SHOWN)

    @property
    def counted(self) -> int:
        """Changes that some input would show: equal, forgiven and refused ones are none."""
        return self.shown + len(self.unseen)

    @property
    def unseen(self) -> list[Change]:
        """Changes that no judged input shows, those that other shapes may show first."""
        hidden = [c for c, s in self.showings.items() if s in (Showing.UNSEEN, Showing.DEGENERATE)]
        return sorted(hidden, key=lambda c: (not c.kind.shapes_tell, c.key.line))

    @property
    def degenerate(self) -> list[Change]:
        """Changes that the shapes at hand do not allow."""
        return [c for c, s in self.showings.items() if s is Showing.DEGENERATE]
