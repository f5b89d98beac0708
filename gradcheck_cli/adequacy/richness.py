"""How much the shapes of a signature allow to be changed: the richer, the less they leave open."""

from __future__ import annotations

from dataclasses import dataclass

from gradcheck_cli.adequacy.change import Kind, Place


@dataclass(frozen=True, slots=True)
class Richness:
    """Places and kinds of change: those that the shapes allow, and those that they leave open."""

    possible: frozenset[tuple[Place, Kind]]
    degenerate: frozenset[tuple[Place, Kind]]

    def __add__(self, more: Richness) -> Richness:
        """Of several signatures: what one of them settles is open in none."""
        left = {d for d in self.degenerate if not more.settles(*d)}
        left |= {d for d in more.degenerate if not self.settles(*d)}
        return Richness(self.possible | more.possible, frozenset(left))

    def settles(self, place: Place, kind: Kind) -> bool:
        """Is there nothing open here: the change is possible, or the place has no such question?"""
        open_places = {p for p, _ in self.degenerate}
        there = any(p == place for p, _ in self.possible)
        return (place, kind) in self.possible or (there and place not in open_places)
