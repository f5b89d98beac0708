"""A trial of changed signatures: which of them function and rule take, and the first that the rule does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gradcheck_cli.infer.explore import Explorer
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.multiples import with_multiples
from gradcheck_cli.infer.objects import MADE_UP
from gradcheck_cli.infer.others import OPEN, chooses
from gradcheck_cli.infer.template import Template, template
from gradcheck_cli.inputs.ends import are_crossed
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Hints, Leaf, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_MOST_EXPLORED = 3

Broken = tuple[Signature, RuleError]
Preference = Callable[[Signature], bool]


@dataclass(slots=True)
class Trial:
    """A trial of signatures: the subjects that fit, and the first signature at which the rule is certainly broken."""

    gradient: CustomGradient
    dtype: str
    hints: Hints
    fitting: list[Subject] = field(default_factory=list)
    broken: Broken | None = None
    misfit: Broken | None = None
    explored: int = 0
    refusal: Broken | None = None  # of shapes that a source states for every array

    def fit(
        self, signature: Signature, changed: Mapping[str, Any], prefers: Preference | None = None
    ) -> bool:
        """The signature with these arguments, if function and rule take it; in other shapes if need be."""
        arguments = tuple((n, changed.get(n, v)) for n, v in signature.arguments)
        tried = Signature(arguments, signature.keywords)
        if are_crossed(tried) or self._lies_along(signature, changed):
            return False
        if any(isinstance(v, Leaf) and OPEN in v.shape for v in changed.values()):
            return self._given(tried, prefers)
        try:
            subject = fitted(self.gradient, tried, self.dtype)
            subject.traces()
        except Rejected:
            return self._explore(tried, prefers)
        except RuleError as error:
            return self._refused(tried, changed, error)
        if prefers is not None and not prefers(tried):
            return self._explore(tried, prefers)
        self.fitting.append(subject)
        return True

    def _lies_along(self, signature: Signature, changed: Mapping[str, Any]) -> bool:
        """Is a number that has to be as an axis is long 1 now? It fits by chance: one class lies along all others."""
        sizes = {size for leaf in signature.leaves for size in leaf.shape}
        before = dict(signature.arguments)
        for name, value in changed.items():
            here = before.get(name)
            size = self.defaults.get(name) if here is OMITTED else getattr(here, "value", None)
            is_one = type(value) is Fixed and type(value.value) is int and value.value == 1
            if is_one and type(size) is int and 1 < size in sizes:
                longer = Fixed(size + 1, str(size + 1), value.source)
                try:
                    fitted(self.gradient, signature.with_argument(name, longer), self.dtype)
                except Rejected as refusal:  # does it say that these two do not fit?
                    told = set(re.findall(r"\d+", str(refusal)))
                    return told >= {str(size), str(size + 1)}
                except RuleError:
                    return False
        return False

    def _refused(self, tried: Signature, changed: Mapping[str, Any], error: RuleError) -> bool:
        """The rule refuses what the function takes; that it refuses these sizes alone is no certain error."""
        if not error.certain and self._holds_what_was_made_up(tried):
            return False  # it may want other shapes, and say so by its numbers
        if not error.certain and not self._alone_to_blame(tried, changed, error):
            return False
        elsewhere = None if error.certain else self._in_other_shapes(tried, _as_before)
        if elsewhere is not None and all(_differing(leaf.shape) for leaf in elsewhere.leaves):
            self.misfit = self.misfit or (tried, error)
            self.fitting.append(elsewhere)
            return True
        self.broken = self.broken or (tried, error.surely())
        return False

    def _holds_what_was_made_up(self, tried: Signature) -> bool:
        """Is there an object in it that neither the user nor the module made?"""
        return any(
            isinstance(value, Fixed)
            and value.source == MADE_UP
            and name not in self.hints.instances
            for name, value in tried.arguments
        )

    def _alone_to_blame(
        self, tried: Signature, changed: Mapping[str, Any], error: RuleError
    ) -> bool:
        """Does the rule fail for another axis, word or flag alone, at an array that it takes otherwise?

        Of several arrays another axis may want other shapes; what raises on purpose says so by its type.
        """
        chosen = all(
            isinstance(value, Fixed)
            and (chooses(name, self.hints) or isinstance(value.value, bool))
            for name, value in changed.items()
        )
        by_position = not changed.keys() & tried.keywords
        alone = by_position and len(tried.whole_leaves) == 1
        return chosen and alone and not _is_deliberate(error)

    def _given(self, opened: Signature, prefers: Preference | None) -> bool:
        """The call with what is left out by default in the shape that a source states.

        Where one states the shapes of all arrays, and the rule takes none of them, it is broken.
        """
        fits = self._explore(opened, prefers)
        self.broken = self.broken or (None if fits else self.refusal)
        return fits

    def _explore(self, refused: Signature, prefers: Preference | None) -> bool:
        """The call in shapes that fit it: another axis may want a weight of another length."""
        subject = self._in_other_shapes(refused, prefers=prefers)
        if subject is None or (prefers is not None and not prefers(subject.signature)):
            return False
        self.fitting.append(subject)
        return True

    def _in_other_shapes(
        self,
        refused: Signature,
        narrowed: Callable[[Template, Signature], Template] | None = None,
        prefers: Preference | None = None,
    ) -> Subject | None:
        """The subject of the call in the richest shapes that function and rule take; else what stated shapes are refused."""
        self.refusal = None
        opened = template(refused, self.hints.clues, list(self.hints.specs))
        opened = opened if narrowed is None else narrowed(opened, refused)
        if self.explored >= _MOST_EXPLORED or not opened.holes:
            return None
        self.explored += 1
        in_parts = with_multiples(opened, self.hints, self.defaults)
        for each in (in_parts, opened) if in_parts != opened else (opened,):
            found = Explorer(self.gradient, self.dtype, each, prefers).explored()
            if found.subject is not None:
                return found.subject
            stated = all(hole.settled for hole in each.holes)
            meant = [r for r in found.refused if not _is_deliberate(r[1]) and not r[0].is_empty]
            if stated and meant and not self._holds_what_was_made_up(refused):
                self.refusal = self.refusal or (meant[0][0], meant[0][1].surely())
        return None

    @property
    def defaults(self) -> dict[str, object]:
        return {parameter.name: parameter.default for parameter in self.gradient.parameters()}


def _is_deliberate(error: RuleError) -> bool:
    """Does the rule say itself that it is not written for this?"""
    return error.stage == NotImplementedError.__name__


def _differing(shape: tuple[int, ...]) -> bool:
    """Are no two axes equal, so that one taken for another would show?"""
    return len(set(shape)) == len(shape)


def _as_before(opened: Template, signature: Signature) -> Template:
    """The call with its arrays open, but of as many axes as before."""
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    holes = [replace(hole, rank=ranks.get(hole.path, hole.rank)) for hole in opened.holes]
    return replace(opened, holes=tuple(holes))
