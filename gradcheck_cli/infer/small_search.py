"""A search among small signatures of shapes that are made up: the simplest that function and rule take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.mismatch import wants_complex, wants_integers
from gradcheck_cli.infer.options import options, options_of_shapes
from gradcheck_cli.infer.orders import by_weight
from gradcheck_cli.inputs.signature import Hints, Parameter, Signature
from gradcheck_cli.project.input_specs import ArraySpec
from gradcheck_cli.reals.walk import uncovered
from gradcheck_cli.subject.protocol import CustomGradient, Subject, Traced
from gradcheck_cli.subject.refusals import NO_CALL, Declined, Furthest, Rejected, RuleError

# Dimensions differ, so that a transposed or summed axis shows.
_UNIFORM: tuple[tuple[int, ...], ...] = (
    (), (3,), (3, 4), (3, 3), (4, 3), (2, 3, 4), (2, 5, 3, 4)
)  # fmt: skip
_MOST_MIXTURES = 1600
_WANTED = 2


@dataclass(slots=True)
class SmallSearch:
    """The subjects that fit until now: the smallest, and one of higher rank; or why nothing does."""

    gradient: CustomGradient
    parameters: Sequence[Parameter]
    dtype: str
    hints: Hints
    subjects: list[Subject] = field(default_factory=list)
    reason: Furthest = NO_CALL
    broken: tuple[Signature, RuleError] | None = None
    # Arrays of one shape, and a gradient of another.
    misfit: tuple[Signature, RuleError] | None = None
    wants_integers: bool = False  # a refusal speaks of them
    wants_complex: bool = False
    complex_of: str = ""  # the first real argument for which the rule gives a complex gradient
    vain: int = 0  # signatures that the function refuses
    first_refusal: str = ""
    _tries: int = 0
    _ranks: set[int] = field(default_factory=set)
    _left: Iterator[Signature] = field(init=False)

    def __post_init__(self) -> None:
        self._left = _signatures(self.parameters, self.hints)

    def go(self, most: int) -> None:
        """Try until enough fit, or until so many were tried in all; `Declined` where one has to be a number."""
        for signature in self._left:
            rank = max((len(leaf.shape) for leaf in signature.leaves), default=0)
            if rank not in self._ranks:
                self._tries += 1
                self._try(signature, rank)
            if self._tries >= most or _enough(self.subjects):
                return

    def _try(self, signature: Signature, rank: int) -> None:
        try:
            subject = fitted(self.gradient, signature, self.dtype)
            subject.traces()
        except Declined:
            raise
        except Rejected as error:
            self.vain += 1
            refusal = f"{signature.describe()}: {error}"
            self.first_refusal = self.first_refusal or refusal
            self.reason = self.reason.or_further(Furthest(refusal, error.progress))
            self.wants_integers |= wants_integers(str(error))
            self.wants_complex |= wants_complex(str(error))
        except RuleError as error:
            self.broken = self.broken or (signature, error)
            self.complex_of = self.complex_of or error.complex_of
            if self.subjects and not error.complex_of:
                self._ranks.add(rank)  # this rank is not what the rule is for
                alike = len({leaf.shape for leaf in signature.leaves}) == 1
                if error.silent and alike and self._as_stated(signature):
                    self.misfit = self.misfit or (signature, error)
        else:
            self.subjects.append(subject)
            self._ranks.add(rank)

    def _as_stated(self, signature: Signature) -> bool:
        """Has each array as many axes as the text says, where it says so? Others are taken by accident."""
        stated = {n: spec for n, (spec, _) in self.hints.guesses.items()}
        ranks = {n: len(s.shape) for n, s in stated.items() if isinstance(s, ArraySpec)}
        return all(ranks.get(x.path, len(x.shape)) == len(x.shape) for x in signature.leaves)


def _enough(subjects: Sequence[Subject]) -> bool:
    """Are there two subjects, and a third where all outputs are single numbers (cotangent rows may be mixed up)?"""
    if len(subjects) != _WANTED:
        return len(subjects) > _WANTED
    single = all(int(np.prod(shape, dtype=int)) == 1 for s in subjects for shape in s.outputs)
    return not (single and all(map(_walkable, subjects)))


def _walkable(subject: Traced) -> bool:
    """Does its truth come from the reals? By differences, arrays are dear."""
    primal = subject.traces().primal
    return primal is not None and not uncovered(primal)


def _signatures(parameters: Sequence[Parameter], hints: Hints) -> Iterator[Signature]:
    """Uniform shapes first, then mixtures, the simplest first."""
    texts: set[str] = set()
    fitting = [shape for n in hints.sizes for shape in ((3, n), (n,))]
    for shape in (*_UNIFORM, *fitting):
        for choice in by_weight([options(p, shape, hints) for p in parameters], 24):
            yield from _new(parameters, choice, texts)
    sizes = [options_of_shapes(p, hints) for p in parameters]
    for choice in by_weight(sizes, _MOST_MIXTURES):
        yield from _new(parameters, choice, texts)


def _new(
    parameters: Sequence[Parameter], choice: Sequence[Any], texts: set[str]
) -> Iterator[Signature]:
    signature = Signature(
        arguments=tuple((p.name, v) for p, v in zip(parameters, choice, strict=True)),
        keywords=frozenset(p.name for p in parameters if p.keyword_only),
    )
    text = signature.describe() + repr([leaf.shape for leaf in signature.leaves])
    if text not in texts:
        texts.add(text)
        yield signature
