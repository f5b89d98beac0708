"""Calls to fall back on where a function has no value at any point of those that fit.

A table that leaves an entry out makes an empty segment, whose logarithm is infinite; numbers of an object that
are differentiated, too, may lie on the wrong sides of each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import GUESS, OMITTED, Fixed, Leaf, Parameter, Signature, tables
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_MOST = 3  # of the calls that fit


def second_chances(
    gradient: CustomGradient, subjects: Sequence[Subject], dtype: str
) -> Iterator[Subject]:
    """The first of the subjects again, with other tables, or with the settings of its maker as they are."""
    parameters = {p.name: p for p in gradient.parameters()}
    for subject in itertools.islice(subjects, _MOST):
        made = _as_made(subject.signature, parameters)
        if made is None and not any(True for _ in tables(subject.signature)):
            continue
        signature = made or subject.signature.changed(_without_gaps)
        try:
            again = fitted(gradient, signature, dtype)
            again.traces()
        except (Rejected, RuleError):
            continue
        yield again


def _without_gaps(part: object) -> object:
    """A table with each integer up to its largest: no segment is empty, no row is left out."""
    value = part.value if isinstance(part, Fixed) else None
    if (
        not isinstance(part, Fixed)
        or not isinstance(value, np.ndarray)
        or value.dtype.kind not in "iu"
    ):
        return part
    least, most = int(value.min(initial=0)), int(value.max(initial=0))
    places = np.arange(value.size).reshape(value.shape) * 2 % (most - least + 1)
    return Fixed(
        (least + places).astype(value.dtype), part.text, part.source, axes=part.axes, path=part.path
    )


def _as_made(signature: Signature, parameters: Mapping[str, Parameter]) -> Signature | None:
    """The call with its keywords as plain numbers, or left to their defaults; none where none is an array."""
    made = signature
    for name in signature.keywords:
        value = dict(signature.arguments)[name]
        if isinstance(value, Leaf) and not value.shape:
            guessed = parameters[name].default is OMITTED
            made = made.with_argument(name, Fixed(0.5, "0.5", GUESS) if guessed else OMITTED)
    return None if made is signature else made
