"""Calls to fall back on where a function has no value at any point of those that fit.

A table that leaves an entry out makes an empty segment, whose logarithm is infinite; numbers of an object that
are differentiated, too, may lie on the wrong sides of each other; a place in an array may be behind its end.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import GUESS, OMITTED, Fixed, Leaf, Parameter, Signature, tables
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_FEW = 2
_COUNTS = re.compile(r"seed|iter|step|term|vocab|key")  # no place in an array
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
        signature = made or _counted(subject.signature, clues).changed(_without_gaps)
        try:
            again = fitted(gradient, signature, dtype)
            again.traces()
        except (Rejected, RuleError):
            continue
        yield again


def _counted(signature: Signature, clues: Clues) -> Signature:
    """The call with the last integer of each table that a number bounds: the last segment is not empty."""
    numbers = {n: v.value for n, v in signature.arguments if isinstance(v, Fixed)}
    for name, part in signature.arguments:
        bounds = (numbers.get(_bound(clue)) for clue in clues.get(name, ()))
        count = next((number for number in bounds if type(number) is int), 0)
        if _is_table(part) and 0 < count <= part.value.size:
            values = part.value.copy()
            values.flat[-1] = count - 1
            signature = signature.with_argument(name, replace(part, value=values))
    return signature


def _bound(clue: Clue) -> str:
    """The argument that integers stay below: `in 0..segments`."""
    return clue.domain.removeprefix("in 0..")


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
