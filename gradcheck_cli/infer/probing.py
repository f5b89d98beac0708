"""Probing: offer the function small signatures until it accepts some (abstractly, nothing runs)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.infer.options import options, options_of_shapes
from gradcheck_cli.infer.variants import varied
from gradcheck_cli.inputs.parameters import expanded
from gradcheck_cli.inputs.signature import Hints, Leaf, Parameter, Signature
from gradcheck_cli.reals.walk import uncovered
from gradcheck_cli.subject.protocol import CustomGradient, Subject, Traced
from gradcheck_cli.subject.refusals import Declined, Rejected, RuleError

# Dimensions differ, so that a transposed or summed axis shows.
_UNIFORM: tuple[tuple[int, ...], ...] = (
    (), (3,), (3, 4), (3, 3), (4, 3), (2, 3, 4), (2, 5, 3, 4)
)  # fmt: skip
_MOST_TRIES = 400
# How frameworks say that a float is not what they want.
_INTEGER = re.compile(r"\b(u?int(eger|egers|s|\d+)?|long|__index__)\b", re.IGNORECASE)
_MOST_ARGUMENTS = 3  # of a function that takes any number
_WANTED = 2


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of probing: the subjects that fit, or why nothing does."""

    subjects: list[Subject]
    reason: str
    broken: tuple[Signature, RuleError] | None = None
    # Arrays of one shape, and a gradient of another.
    misfit: tuple[Signature, RuleError] | None = None
    wants_integers: bool = False  # a refusal speaks of them


def probe(gradient: CustomGradient, dtype: str, hints: Hints) -> Attempt:
    """Up to two signatures that function and rule accept: the smallest, and one of higher rank.

    A signature that the function takes and its rule does not may be one that
    nobody intends; it counts (as `broken`) only if there is none that both take.
    """
    recorded = _recorded(gradient, dtype, hints)
    if recorded is not None:
        return recorded
    parameters = list(gradient.parameters())
    if [p.variadic for p in parameters] != [True]:
        floats = _probe(gradient, parameters, dtype, hints)
        return _with_integers(gradient, parameters, dtype, hints, floats)
    attempts = []
    for count in range(1, _MOST_ARGUMENTS + 1):
        attempts.append(_probe(gradient, expanded(parameters, count), dtype, hints))
        if attempts[-1].subjects:
            return attempts[-1]
    return next((a for a in attempts if a.broken is not None), attempts[0])


def _with_integers(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    dtype: str,
    hints: Hints,
    floats: Attempt,
) -> Attempt:
    """The attempt with integers for one or two arguments, where no floats fit and the function asks for them."""
    if floats.subjects or floats.broken is not None or not floats.wants_integers:
        return floats
    names = [p.name for p in parameters if p.differentiable and p.name not in hints.specs]
    for count in (1, 2):
        for chosen in itertools.combinations(reversed(names), count):  # the last ones first
            whole = replace(hints, integers=frozenset(chosen))
            attempt = _probe(gradient, parameters, dtype, whole)
            if attempt.subjects or attempt.broken is not None:
                return attempt
    return floats


def _recorded(gradient: CustomGradient, dtype: str, hints: Hints) -> Attempt | None:
    """The attempt with the signatures of real calls; None where none of them fits."""
    subjects: list[Subject] = []
    for signature in hints.calls:
        try:
            subject = gradient.fit(signature, dtype)
            subject.traces()
        except Rejected:
            continue
        except RuleError as error:
            sure = RuleError(error.stage, error.message, certain=True, silent=error.silent)
            return Attempt([], "", (signature, sure))
        subjects.append(subject)
    return Attempt(subjects, "") if subjects else None


def _probe(
    gradient: CustomGradient, parameters: Sequence[Parameter], dtype: str, hints: Hints
) -> Attempt:
    subjects: list[Subject] = []
    ranks: set[int] = set()
    reason, broken, misfit, tried, integers = "", None, None, 0, False
    for signature in _signatures(parameters, hints):
        if tried >= _MOST_TRIES or _enough(subjects):
            break
        rank = max((len(leaf.shape) for leaf in signature.leaves), default=0)
        if rank in ranks:
            continue
        tried += 1
        try:
            subject = gradient.fit(signature, dtype)
            subject.traces()
        except Declined as refusal:
            return _probe(gradient, _with_number(parameters, refusal.argument), dtype, hints)
        except Rejected as error:
            reason = reason or f"{signature.describe()}: {error}"
            integers = integers or _INTEGER.search(str(error)) is not None
            continue
        except RuleError as error:
            broken = broken or (signature, error)
            if subjects:
                ranks.add(rank)  # this rank is not what the rule is for
                if error.silent and len({leaf.shape for leaf in signature.leaves}) == 1:
                    misfit = misfit or (signature, error)
            continue
        subjects.append(subject)
        ranks.add(rank)
    if subjects:
        others, broken = varied(gradient, parameters, [s.signature for s in subjects], dtype)
        subjects += others
    return Attempt(subjects, reason or "no signature was tried", broken, misfit, integers)


def _with_number(parameters: Sequence[Parameter], name: str) -> list[Parameter]:
    """The parameters, with one of them a number that is not differentiated."""
    return [replace(p, differentiable=False) if p.name == name else p for p in parameters]


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


def broadcast_refused(
    gradient: CustomGradient, subjects: Sequence[Subject], dtype: str
) -> tuple[Signature, RuleError] | None:
    """A single number for one argument beside arrays: does the function take it, and its rule not?"""
    arrays = [s for s in subjects if len(s.leaves) > 1 and any(leaf.shape for leaf in s.leaves)]
    for subject in arrays[:1]:
        for name, value in subject.signature.arguments:
            if not isinstance(value, Leaf) or not value.shape:
                continue
            single = tuple(
                (n, replace(v, shape=(), recorded=None) if n == name else v)
                for n, v in subject.signature.arguments
            )
            narrow = Signature(single, subject.signature.keywords)
            try:
                gradient.fit(narrow, dtype).traces()
            except Rejected:
                continue
            except RuleError as error:
                return narrow, error
    return None


def _signatures(parameters: Sequence[Parameter], hints: Hints) -> Iterator[Signature]:
    """Uniform shapes first, then mixtures, the simplest first."""
    texts: set[str] = set()
    fitting = [shape for n in hints.sizes for shape in ((3, n), (n,))]
    for shape in (*_UNIFORM, *fitting):
        for choice in _product([options(p, shape, hints) for p in parameters], 24):
            yield from _new(parameters, choice, texts)
    sizes = [options_of_shapes(p, hints) for p in parameters]
    for choice in _product(sizes, 4 * _MOST_TRIES):
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


def _product(options: Sequence[Sequence[Any]], most: int) -> Iterator[tuple[Any, ...]]:
    """The product in order of total position: simple choices for all come first."""
    total = sum(len(o) - 1 for o in options)
    count = 0
    for weight in range(total + 1):
        for picks in _of_weight([len(o) for o in options], weight):
            yield tuple(o[i] for o, i in zip(options, picks, strict=True))
            count += 1
            if count >= most:
                return


def _of_weight(lengths: Sequence[int], weight: int) -> Iterator[tuple[int, ...]]:
    if not lengths:
        if weight == 0:
            yield ()
        return
    for first in range(min(lengths[0], weight + 1)):
        for rest in _of_weight(lengths[1:], weight - first):
            yield (first, *rest)
