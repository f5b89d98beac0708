"""Variants of a signature, for each argument that selects, scales or may be left out, and for odd axes: faults hide there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.infer.empty_rows import with_an_empty_row
from gradcheck_cli.infer.other_sizes import other_sizes
from gradcheck_cli.infer.others import (
    chooses,
    has_ways,
    may_be_floats,
    moves_axis,
    optional,
    other_values,
    same,
    special_values,
    value_of,
)
from gradcheck_cli.infer.overlap import overlapping, slides
from gradcheck_cli.infer.static_values import stated_kind
from gradcheck_cli.infer.trial import Broken, Trial
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.names import leaves_out
from gradcheck_cli.inputs.signature import (
    GUESS,
    OMITTED,
    Fixed,
    Hints,
    Leaf,
    Parameter,
    Signature,
    tables,
)
from gradcheck_cli.inputs.stand_ins import mask
from gradcheck_cli.subject.protocol import CustomGradient, Subject

_MOST = 8
_MOST_EACH = 2  # of one argument: words are few, axes two
_MOST_WORDS = 6  # each is another way of computing
_MOST_WORDS_AT_ONCE = 4
_MOST_PAIRS = 3  # of arguments that are moved at once, where all do not fit
_COLUMNS = 3  # of which two may be alike, and still there are others
_MOST_WINDOWS = 2  # pairs of a length and a step


@dataclass(frozen=True, slots=True)
class Variants:
    """Variants that function and rule take; `broken` is the first that the rule certainly does not."""

    subjects: list[Subject]
    broken: Broken | None = None
    misfit: Broken | None = None  # one that the rule refuses at these sizes, but takes at others


def varied(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    fitting: Sequence[Signature],
    dtype: str,
    hints: Hints,
) -> Variants:
    """The first signature again with each flag the other way, with what was left out, with other words and numbers.

    Instead of all, the first that the function takes and its rule certainly not: the rest follows.
    """
    trial = Trial(gradient, dtype, hints)
    signature = fitting[0]
    arguments = dict(signature.arguments)
    left_out = [
        p.name
        for p in parameters
        if arguments[p.name] is OMITTED and optional(p) and may_be_floats(p.name, hints)
    ]
    if len(left_out) > 1:  # what is left out together may be needed together
        for other in fitting:
            first = other.leaves[0].shape
            trial.fit(other, _leaves(left_out, [first, *[()] * (len(left_out) - 1)]))
            trial.fit(other, _leaves(left_out, [first] * len(left_out)))
    _overlap(trial, signature, parameters)
    for changed in _together(parameters, signature, hints):
        trial.fit(signature, changed)
    fits = {p.name: _vary(trial, signature, p) for p in parameters}
    moved = {name: values for name, values in fits.items() if values}
    alone = len(trial.fitting)
    _mark(trial, signature, parameters, moved)
    if trial.broken is None:
        _move_at_once(trial, signature, moved)
    if trial.broken is not None:
        return Variants([], trial.broken)
    # What is moved at once comes first: what two of them do together, and what is cut off.
    found = [*trial.fitting[alone:], *trial.fitting[:alone]][:_MOST]
    return Variants(
        [*found, *other_sizes(gradient, fitting[-1], dtype, hints)], misfit=trial.misfit
    )


def _mark(
    trial: Trial,
    signature: Signature,
    parameters: Sequence[Parameter],
    moved: Mapping[str, Sequence[Any]],
) -> None:
    """A table that is given, with an integer of it that does not count: labels of which some are ignored."""
    given = {
        name: value
        for name, values in moved.items()
        for value in values[:1]
        if isinstance(value, Fixed) and getattr(value.value, "dtype", None) is not None
    }
    for name, table in given.items():
        beside = signature.with_argument(name, table)
        for parameter in parameters:
            for mark in _left_out(
                parameter, dict(signature.arguments)[parameter.name], beside, trial.hints
            ):
                trial.fit(signature, {name: table, parameter.name: mark})


def _move_at_once(trial: Trial, signature: Signature, moved: Mapping[str, Sequence[Any]]) -> None:
    """All that can be moved at once, with each word; where that does not fit, the first pairs that do."""
    first = {name: values[0] for name, values in moved.items()}
    if len(first) < 2:
        return
    if trial.fit(signature, first):
        for more in itertools.islice(_with_words(moved, first, trial.hints), _MOST_WORDS_AT_ONCE):
            trial.fit(signature, more)
        return
    fitting = 0
    for pair in itertools.combinations(first.items(), 2) if len(first) > 2 else ():
        fitting += trial.fit(signature, dict(pair))
        if fitting == _MOST_PAIRS:
            return


def _with_words(
    moved: Mapping[str, Sequence[Any]], first: Mapping[str, Any], hints: Hints
) -> Iterator[dict[str, Any]]:
    """All moved but a word, which stays or is another one: what a mean does with weights, a sum may not."""
    for name, values in moved.items():
        if stated_kind(hints.clues.get(name, ())) is not Kind.WORD:
            continue
        rest = {other: value for other, value in first.items() if other != name}
        if len(rest) > 1:
            yield rest
        yield from ({**rest, name: value} for value in values[1:])


def _vary(trial: Trial, signature: Signature, parameter: Parameter) -> list[Any]:
    """Other values of one argument that fit, a few of them."""
    here = dict(signature.arguments)[parameter.name]
    others = [
        *_left_out(parameter, here, signature, trial.hints),
        *_marked(parameter, here, trial.hints),
        *_of_each(here, signature),
        *_one_alone(parameter, here, trial.hints),
        *_alike_in_pairs(parameter, here, trial.hints),
        *_emptied(trial, signature, parameter.name),
        *_with_zeros(here, trial.hints.domains.get(parameter.name)),
        *other_values(parameter, here, signature, trial.hints),
    ]
    plain = all(isinstance(other, Fixed) for other in others)
    counts = type(value_of(parameter, here)) is int
    chosen = _selects(parameter.name, trial.hints) or bool(special_values(parameter, trial.hints))
    wanted = _MOST_EACH if plain and (counts or chosen) else 1
    if has_ways(parameter, here, trial.hints):
        wanted = _MOST_WORDS
    fitting: list[Any] = []
    for other in others:
        if trial.fit(signature, {parameter.name: other}):
            fitting.append(dict(trial.fitting[-1].signature.arguments)[parameter.name])
        if len(fitting) == wanted:
            break
    return fitting


def _overlap(trial: Trial, signature: Signature, parameters: Sequence[Parameter]) -> None:
    """Windows that overlap, and more than one of them: what they share adds up."""
    for window in trial.hints.windows[:_MOST_WINDOWS]:
        told = slides(trial.gradient, trial.dtype, window)
        for changed in overlapping(signature, parameters, window):
            here = dict(signature.arguments)
            unmoved = all(
                same(getattr(here[n], "value", None), v.value) for n, v in changed.items()
            )
            if (unmoved and told(signature)) or trial.fit(signature, changed, told):
                return


def _left_out(parameter: Parameter, here: Any, signature: Signature, hints: Hints) -> list[Fixed]:
    """For an integer whose rows do not count, one that is there."""
    value = value_of(parameter, here)
    marks = leaves_out(parameter.name) or parameter.name in hints.left_out
    if not marks or type(value) is not int:
        return []
    present = [int(array.max()) for _, array in tables(signature) if array.dtype != bool]
    return [Fixed(n, str(n), "one of the integers that are tried") for n in present[:1]]


def _marked(parameter: Parameter, here: Any, hints: Hints) -> list[Fixed]:
    """For a table of which the text asks for entries below zero, the table with every second one so."""
    value = here.value if isinstance(here, Fixed) else None
    if parameter.name not in hints.below_zero or not isinstance(value, np.ndarray):
        return []
    if value.dtype.kind != "i" or value.ndim == 0 or value.size < 2 or value.min() < 0:
        return []
    marked = value.copy()
    marked.flat[1::2] = -1
    return [replace(here, value=marked, source=f"{here.source}, some of them -1")]


def _of_each(here: Any, signature: Signature) -> list[Fixed]:
    """For a single mark that nobody asks for, one for each number of the array with the most axes."""
    value = here.value if isinstance(here, Fixed) else None
    shape = max((leaf.shape for leaf in signature.leaves), key=len, default=())
    if not isinstance(value, np.ndarray) or value.dtype != bool or value.ndim or not shape:
        return []
    return [replace(mask(shape, "one for each number"), path=here.path)]


def _one_alone(parameter: Parameter, here: Any, hints: Hints) -> list[Fixed]:
    """For a table whose rows are compared with each other, one in which the last row is like no other."""
    value = here.value if isinstance(here, Fixed) else None
    if parameter.name not in hints.paired or not isinstance(value, np.ndarray):
        return []
    if value.dtype.kind != "i" or value.ndim != 1 or value.size < 2:
        return []
    unused = np.setdiff1d(np.arange(value.max()), value)
    if not unused.size or (np.unique(value, return_counts=True)[1] < 2).any():
        return []
    alone = np.array([*value[:-1], unused[0]], value.dtype)
    return [replace(here, value=alone, source=f"{here.source}, the last one alone")]


def _alike_in_pairs(parameter: Parameter, here: Any, hints: Hints) -> list[Fixed]:
    """For a table that the body takes apart into rows (`b, i, j = ids`), one that names one place twice."""
    value = here.value if isinstance(here, Fixed) and not hints.distinct else None
    if not isinstance(value, np.ndarray) or value.dtype.kind != "i" or value.ndim != 2:
        return []
    rows, columns = value.shape
    repeated = len(np.unique(value, axis=1).T) < columns
    if hints.unpacked.get(parameter.name) != rows or repeated or columns < _COLUMNS:
        return []
    alike = np.concatenate([value[:, :-1], value[:, :1]], axis=1)
    return [replace(here, value=alike, source=f"{here.source}, one place twice")]


def _emptied(trial: Trial, signature: Signature, name: str) -> list[Fixed]:
    """For a mask, one with an empty row, where something says that there may be one."""
    if not trial.hints.empty_rows or name in trial.hints.specs:
        return []
    return with_an_empty_row(trial.gradient, signature, name, trial.dtype)


def _with_zeros(here: Any, domain: Domain | None) -> list[Fixed]:
    """For ones that nobody chose, ones and zeros: marks that are all true hide what they mark."""
    if domain is not None and domain.is_bounded:
        return []
    value = here.value if isinstance(here, Fixed) and here.source == GUESS else None
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.size < 2:
        return []
    marks = mask(value.shape, GUESS).value.astype(value.dtype)
    if marks.all():
        marks.flat[1::2] = 0
    text = f"ones and zeros{list(value.shape)}"
    return [Fixed(marks, text, f"{GUESS}, some of it 0")] if (value == 1).all() else []


def _selects(name: str, hints: Hints) -> bool:
    """Is the argument worth several values: ways of computing, windows, steps?"""
    return chooses(name, hints) or stated_kind(hints.clues.get(name, ())) is Kind.WHOLE


def _together(
    parameters: Sequence[Parameter],
    signature: Signature,
    hints: Hints,
) -> Iterator[dict[str, Any]]:
    """An axis and a flag moved together: `axis=0, keepdims=True`."""
    arguments = dict(signature.arguments)
    axes = [p for p in parameters if moves_axis(p.name, hints)]
    flags = [p for p in parameters if isinstance(value_of(p, arguments[p.name]), bool)]
    for axis, flag in itertools.product(axes[:1], flags[:1]):
        flipped = next(iter(other_values(flag, arguments[flag.name], signature, hints)))
        for other in other_values(axis, arguments[axis.name], signature, hints):
            if isinstance(other, Fixed) and isinstance(other.value, int):
                yield {axis.name: other, flag.name: flipped}
                break


def _leaves(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    pairs = zip(names, shapes, strict=True)
    return {name: Leaf(name, shape, "given, not left out") for name, shape in pairs}
