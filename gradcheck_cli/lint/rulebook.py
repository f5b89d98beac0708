"""The rules of the linter: pages of `rules/` that hold patterns."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.lint.conditions import holds
from gradcheck_cli.lint.lifting import Lifted
from gradcheck_cli.lint.matching import matches, pattern
from gradcheck_cli.lint.terms import NAME, Term
from gradcheck_cli.project.rule_pages import Rule, rules

_EXACT = ("double", "integer")


@dataclass(frozen=True)
class Form:
    """One pattern of a rule, with its condition."""

    rule: Rule
    term: Term
    condition: str

    def hit(self, lifted: Lifted) -> Hit | None:
        """The term, if it has this form and its parts meet the condition."""
        if not self.needs <= lifted.term.holds or (self.rule.gradient_only and lifted.asked):
            return None
        for found in matches(self.term, lifted.term):
            if holds(self.condition, found):
                hit = Hit(self, lifted, tuple(found.values()))
                if not self._is_excused(hit):
                    return hit
        return None

    def _is_excused(self, hit: Hit) -> bool:
        """Is it in float64, where only digits are lost; or was it compared before, where only zero is in the way?"""
        open_ = [part for term in hit.left for part in term.parts()]
        if self.rule.digits and any(part.head in _EXACT for part in open_):
            return True
        computed = {part for part in (*hit.left, *hit.explained) if part.number is None}
        return self.rule.at_zero and not computed.isdisjoint(hit.lifted.compared)

    @functools.cached_property
    def needs(self) -> frozenset[object]:
        """The heads and numbers that a term must hold to have this form: all but the names, which stand for anything."""
        return self.term.holds - {NAME}

    @functools.cached_property
    def size(self) -> int:
        """How much it says: of two that match one term, the larger counts."""
        return sum(1 for _ in self.term.parts())


@dataclass(frozen=True)
class Hit:
    """A term that has the form of a pattern; `left` is what the pattern's names stand for."""

    form: Form
    lifted: Lifted
    left: tuple[Term, ...]

    @functools.cached_property
    def explained(self) -> frozenset[Term]:
        """The parts that the pattern itself speaks of."""
        open_ = {part for term in self.left for part in term.parts()}
        return frozenset(part for part in self.lifted.term.parts() if part not in open_)

    def explains(self, other: Hit) -> bool:
        """Is the other one about a part of this one's pattern, or about the same, and says less?"""
        if other.lifted.term not in self.explained:
            return False
        if other.lifted.term != self.lifted.term:
            return True
        return (self.form.size, -len(self.left)) > (other.form.size, -len(other.left))


def form(rule: Rule, text: str) -> Form:
    """`log(1 + exp(x)) if grows(x)`."""
    written, _, condition = text.partition(" if ")
    return Form(rule, pattern(written.strip()), condition.strip())


@functools.cache
def forms() -> Mapping[str, Sequence[Form]]:
    """All patterns, by the head of what they match."""
    found: dict[str, list[Form]] = defaultdict(list)
    for rule in rules().values():
        for text in rule.patterns:
            one = form(rule, text)
            found[one.term.head].append(one)
    return found
