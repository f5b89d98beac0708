"""Calls to fall back on where a function has no value at any point of those that fit.

A table that leaves an entry out makes an empty segment, whose logarithm is infinite, and one of a single row has
no variance; numbers of an object that
are differentiated, too, may lie on the wrong sides of each other; a place in an array may be behind its end.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeGuard

import numpy as np

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import GUESS, OMITTED, Fixed, Leaf, Parameter, Signature, tables
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_FEW = 2
_COUNTS = re.compile(r"seed|iter|step|term|vocab|key")  # no place in an array
_LONGEST = 11  # rows
_MOST = 3  # of the calls that fit
_STRIDES = (2, 3, 5, 7, 1)  # primes: with one that does not divide a count, all below it come

Clues = Mapping[str, Sequence[Clue]]


def second_chances(
    gradient: CustomGradient, subjects: Sequence[Subject], dtype: str, clues: Clues
) -> Iterator[Subject]:
    """The first of the subjects again, with other tables, or with the settings of its maker as they are."""
    parameters = {p.name: p for p in gradient.parameters()}
    for subject in itertools.islice(subjects, _MOST):
        made = _as_made(subject.signature, parameters) or _shortened(subject.signature, parameters)
        if made is None and not any(True for _ in tables(subject.signature)):
            continue
        counted = _counted(subject.signature, clues)
        several = _with_several_each(counted, clues, _wholes(counted, parameters))
        offered = (made, several, None if made else counted.changed(_without_gaps))
        again = (_taken(gradient, signature, dtype) for signature in offered if signature)
        yield from itertools.islice((each for each in again if each is not None), 1)


def _taken(gradient: CustomGradient, signature: Signature, dtype: str) -> Subject | None:
    """The subject of a call, if function and rule take it."""
    try:
        subject = fitted(gradient, signature, dtype)
        subject.traces()
    except (Rejected, RuleError):
        return None
    return subject


def _wholes(signature: Signature, parameters: Mapping[str, Parameter]) -> list[int]:
    """The small whole numbers of a call, given or by default."""
    given = dict(signature.arguments)
    values = (
        p.default if given.get(name) is OMITTED else getattr(given.get(name), "value", None)
        for name, p in parameters.items()
    )
    return [n for n in values if type(n) is int and 0 < n <= _LONGEST // 2]


def _with_several_each(
    signature: Signature, clues: Clues, wholes: Sequence[int]
) -> Signature | None:
    """The call with so long an axis that each segment has two rows and more: users in arms, of which there is a variance.

    Where nothing says how many segments there are, one of the whole numbers may.
    """
    for name, part in signature.arguments:
        if not _is_table(part) or part.value.ndim != 1:
            continue
        own = int(part.value.max(initial=0)) + 1
        count = _count(signature, clues.get(name, ())) or max([own, *wholes])
        rows, wanted = part.value.size, 2 * count + 1
        if count > 0 and rows < wanted <= _LONGEST:
            return signature.changed(partial(_longer, rows=rows, wanted=wanted, count=count))
    return None


def _longer(part: object, rows: int, wanted: int, count: int) -> object:
    """An array or a table with so many rows where it has as many as the table, of which each integer comes in turn."""
    if _is_table(part) and part.value.shape == (rows,):
        return replace(part, value=(np.arange(wanted) % count).astype(part.value.dtype))
    if isinstance(part, Leaf):
        return replace(part, shape=tuple(wanted if n == rows else n for n in part.shape))
    return part


def _counted(signature: Signature, clues: Clues) -> Signature:
    """The call with the last integer of each table that a number bounds: the last segment is not empty."""
    for name, part in signature.arguments:
        count = _count(signature, clues.get(name, ()))
        if _is_table(part) and 0 < count <= part.value.size:
            values = part.value.copy()
            values.flat[-1] = count - 1
            signature = signature.with_argument(name, replace(part, value=values))
    return signature


def _count(signature: Signature, clues: Sequence[Clue]) -> int:
    """The number that integers stay below, by itself or by its argument: `in 0..3`, `in 0..segments`; 0 if nothing says it."""
    numbers = {n: v.value for n, v in signature.arguments if isinstance(v, Fixed)}
    bounds = [clue.domain.removeprefix("in 0..") for clue in clues]
    said = (int(each) if each.isdigit() else numbers.get(each) for each in bounds)
    return next((number for number in said if type(number) is int), 0)


def _without_gaps(part: object) -> object:
    """A table with each integer up to its largest: no segment is empty, no row is left out."""
    if not _is_table(part):
        return part
    least, most = int(part.value.min(initial=0)), int(part.value.max(initial=0))
    count = most - least + 1
    stride = next(n for n in _STRIDES if count % n or n == _STRIDES[-1])
    places = np.arange(part.value.size).reshape(part.value.shape) * stride % count
    return replace(part, value=(least + places).astype(part.value.dtype))


def _is_table(part: object) -> TypeGuard[Fixed]:
    value = part.value if isinstance(part, Fixed) else None
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _shortened(signature: Signature, parameters: Mapping[str, Parameter]) -> Signature | None:
    """The call with a small number for each whole one that is beyond every axis: `split=80` of six samples."""
    sizes = [size for leaf in signature.leaves for size in leaf.shape]
    made = signature
    for name, part in signature.arguments:
        value = parameters[name].default if part is OMITTED else getattr(part, "value", None)
        if sizes and type(value) is int and value > max(sizes) and not _COUNTS.search(name):
            made = made.with_argument(
                name, Fixed(_FEW, str(_FEW), "within the arrays that are tried")
            )
    return None if made is signature else made


def _as_made(signature: Signature, parameters: Mapping[str, Parameter]) -> Signature | None:
    """The call with its keywords as plain numbers, or left to their defaults; none where none is an array."""
    made = signature
    for name in signature.keywords:
        value = dict(signature.arguments)[name]
        if isinstance(value, Leaf) and not value.shape:
            guessed = parameters[name].default is OMITTED
            made = made.with_argument(name, Fixed(0.5, "0.5", GUESS) if guessed else OMITTED)
    return None if made is signature else made
