"""Signatures that reach what never ran: an arm of a choice in the user's text that none took until now."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck_cli.clues.arms import Arm, arms
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.narrower import narrower
from gradcheck_cli.infer.other_ranks import with_other_ranks
from gradcheck_cli.infer.others import other_values, value_of
from gradcheck_cli.infer.ran import Ran, watched
from gradcheck_cli.infer.richer import larger
from gradcheck_cli.infer.trial import Trial
from gradcheck_cli.inputs.names import counts_terms, ends_iterations, is_axis
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Parameter, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_MOST_TRIES = 16
_MOST_FOUND = 3
_MOST_VALUES = 4  # of one argument
_MOST_SIZES = 3
_LAST = 3  # signatures from which others are made


@dataclass(frozen=True, slots=True)
class Reached:
    """Subjects each of which takes an arm that none before it does; `closed` are arms that none takes."""

    subjects: list[Subject]
    closed: list[Arm]


def reaching(trial: Trial, parameters: Sequence[Parameter], subjects: Sequence[Subject]) -> Reached:
    """Subjects that function and rule take, for arms that hang on an argument."""
    search = _Search(trial, parameters, list(subjects))
    search.go()
    return Reached(search.found, search.closed())


class _Search:
    """Arms that nothing took yet, and what was tried to take them."""

    def __init__(
        self, trial: Trial, parameters: Sequence[Parameter], subjects: list[Subject]
    ) -> None:
        self.trial, self.parameters, self.subjects = trial, parameters, subjects
        self.paths = _paths(trial.gradient)
        self.found: list[Subject] = []
        self.ran = Ran()
        self._tried: set[str] = set()

    def go(self) -> None:
        """Until all arms are taken, or enough was tried."""
        if not any(self._hangs(arm) for path in self.paths for arm in arms(path)):
            return
        self.ran = self._ran(self.subjects)
        given_up: set[Arm] = set()
        while len(self.found) < _MOST_FOUND:
            left = [arm for arm in self._left() if arm not in given_up]
            if not left or len(self._tried) >= _MOST_TRIES:
                return
            if not self._reach(left):
                given_up.add(left[0])

    def _reach(self, left: Sequence[Arm]) -> bool:
        """Is there a way to the first of these arms, or to another on the way there?"""
        for signature, changed in self._ways(left[0]):
            if len(self._tried) >= _MOST_TRIES:
                return False
            ran = self._tries(signature, changed)
            if ran is not None and self._opens(left, self.trial.fitting[-1], ran):
                return True
        trial, last = self.trial, self.subjects[-1].signature
        ranks = with_other_ranks(trial.gradient, last, trial.dtype, trial.hints, left[0])
        return any(self._opens(left, other, self._ran([other])) for other in ranks)

    def _opens(self, left: Sequence[Arm], subject: Subject, ran: Ran) -> bool:
        """Does this subject take an arm that none did? Then it is one of those that were found."""
        if not any(ran.chose(arm) for arm in left):
            return False
        self.ran.add(ran)
        self.subjects.append(subject)
        self.found.append(subject)
        return True

    def closed(self) -> list[Arm]:
        """Arms that nothing opened, though a plain argument decides, or how an array is shaped."""
        signatures = [subject.signature for subject in self.subjects]
        arrays = {n for each in signatures for n, value in each.arguments if _is_array(value)}
        plain = {parameter.name for parameter in self.parameters} - arrays
        return [arm for arm in self._left() if arm.names & plain or arm.asks_for_shapes]

    def _left(self) -> Iterator[Arm]:
        """Arms that hang on an argument, whose question was asked and always answered the other way."""
        every = (arm for path in self.paths for arm in arms(path) if self._hangs(arm))
        return (arm for arm in every if self.ran.asked(arm) and not self.ran.chose(arm))

    def _ran(self, subjects: Sequence[Subject]) -> Ran:
        """What runs of the text where these are traced again."""
        with watched(self.paths) as ran:
            for subject in subjects:
                with contextlib.suppress(Rejected, RuleError):  # what it drew was another number
                    fitted(self.trial.gradient, subject.signature, subject.dtype).traces()
        return ran

    def _hangs(self, arm: Arm) -> bool:
        by_argument = any(parameter.name in arm.names for parameter in self.parameters)
        return by_argument and not arm.opens_otherwise

    def _tries(self, signature: Signature, changed: dict[str, Any]) -> Ran | None:
        """What runs of the text with these changes, if function and rule take them."""
        arrays = [(leaf.path, leaf.shape) for leaf in signature.leaves]
        key = f"{signature.describe()} {arrays} {changed!r}"
        if key in self._tried:
            return None
        self._tried.add(key)
        explored = self.trial.explored
        with watched(self.paths) as ran:
            fits = self.trial.fit(signature, changed)
        if not fits:
            return None
        # What ran while other shapes were looked for is not what runs at those that were found.
        return ran if self.trial.explored == explored else self._ran(self.trial.fitting[-1:])

    def _ways(self, arm: Arm) -> Iterator[tuple[Signature, dict[str, Any]]]:
        """Changes that might lead there: of the plain arguments that the question rests on, of what it names, of sizes."""
        hints = self.trial.hints
        rests_on = [p for p in self.parameters if p.name in arm.names]
        bases = [subject.signature for subject in self.subjects[: -_LAST - 1 : -1]]
        for base in bases:
            yield from self._moved(base, rests_on)
            if arm.asks_for_shapes:
                yield from self._longer(base, rests_on)
        for base in bases[-1:]:
            yield from ((less, {}) for less in narrower(base, arm.named))
        for base in bases:
            yield from ((bigger, {}) for bigger in _first(larger(base, hints), _MOST_SIZES))
        for base in bases[-1:] if arm.asks_for_shapes else ():
            # Of what a name in the question was made of: `shared = mats.ndim == 2`.
            yield from ((less, {}) for less in narrower(base, arm.names - arm.named))

    def _moved(
        self, base: Signature, parameters: Sequence[Parameter]
    ) -> Iterator[tuple[Signature, dict[str, Any]]]:
        here = dict(base.arguments)
        for parameter in parameters:
            if isinstance(here[parameter.name], Leaf):
                yield from ((base, {parameter.name: none}) for none in self._none(parameter.name))
                continue
            values = other_values(parameter, here[parameter.name], base, self.trial.hints)
            yield from ((base, {parameter.name: value}) for value in _first(values, _MOST_VALUES))

    def _longer(
        self, base: Signature, parameters: Sequence[Parameter]
    ) -> Iterator[tuple[Signature, dict[str, Any]]]:
        """Counts that the text may compare with an axis, longer than any; none that a source states, or that ends a loop."""
        here = dict(base.arguments)
        longest = max((n for leaf in base.leaves for n in leaf.shape), default=1) + 2
        for name, value in ((p.name, value_of(p, here[p.name])) for p in parameters):
            ends = ends_iterations(name) or counts_terms(name) or is_axis(name)
            if type(value) is int and not ends and name not in self.trial.hints.specs:
                yield base, {name: Fixed(longest, str(longest), "longer than any axis")}

    def _none(self, name: str) -> Iterator[Fixed]:
        """None in place of an array, where a source says that it may be that."""
        clues = self.trial.hints.clues.get(name, ())
        clue = next((clue for clue in clues if None in clue.values), None)
        if clue is not None:
            yield Fixed(None, "None", clue.source)


def _first(each: Iterator[Any], most: int) -> Iterator[Any]:
    return (item for item, _ in zip(each, range(most), strict=False))


def _is_array(value: Any) -> bool:
    plain = value.value if isinstance(value, Fixed) else value
    return plain is not OMITTED and not isinstance(plain, bool | int | float | str | None)


def _paths(gradient: CustomGradient) -> frozenset[str]:
    """The files of the function and of its rule."""
    codes = (function.__code__.co_filename for function in gradient.rule_code())
    return frozenset({gradient.place.path, *codes})
