"""The family of signatures by which a rule is judged: small ones, and the richest that it takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcheck_cli.infer.explore import Exploration, Explorer
from gradcheck_cli.infer.multiples import with_multiples
from gradcheck_cli.infer.options import options
from gradcheck_cli.infer.orders import by_weight
from gradcheck_cli.infer.others import GIVEN, may_be_floats, moves_axis, optional
from gradcheck_cli.infer.overlap import slides
from gradcheck_cli.infer.static_values import plain_values
from gradcheck_cli.infer.template import Template, template, with_columns
from gradcheck_cli.inputs.signature import Fixed, Hints, Leaf, Parameter, Signature, tables
from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import NO_CALL, Furthest, RuleError

_MOST_TEMPLATES = 12
_MOST_AXES = 3
# What a program consists of whose results each rest on the operands' elements at their own place.
_ELEMENTWISE = named(
    lambda facts: facts.pointwise or facts.spreads or facts.law in (Law.CREATION, Law.CONTROL)
)


Broken = tuple[Signature, RuleError]


@dataclass(frozen=True, slots=True)
class Family:
    """Subjects that function and rule take; `broken` is where the sources say it should and it does not."""

    subjects: list[Subject]
    broken: Broken | None = None
    refused: Sequence[Broken] = ()  # richer ones that the function takes and its rule does not
    vain: int = 0  # shapes that the function itself refuses
    first_refusal: str = ""  # the first of these, with its reason
    furthest: Furthest = NO_CALL


def family(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    dtype: str,
    hints: Hints,
    small: Sequence[Subject],
) -> Family:
    """The small subjects with the richest one; of what is not elementwise, the richest one alone.

    A function of whole axes takes single numbers and vectors by accident more often than by intent.
    """
    broken: Broken | None = None
    refused: list[Broken] = []
    vain, first, furthest = 0, "", NO_CALL
    for opened in _templates(parameters, hints, small):
        if not opened.holes:
            break
        window = next(iter(hints.windows), None)
        prefers = None if window is None else slides(gradient, dtype, window)
        explored = Explorer(gradient, dtype, opened, prefers).explored()
        refused += explored.refused
        vain, first = vain + explored.vain, first or explored.first_refusal
        furthest = furthest.or_further(explored.furthest)
        if explored.subject is not None:
            meant = [subject for subject in small if _is_meant(subject, opened)]
            subjects = _chosen(meant, explored.subject)
            told = replace(explored, refused=_of_the_rule(explored.refused, explored.subject, opened))  # fmt: skip
            refused = _of_the_rule(refused, explored.subject, opened)
            return Family(subjects, _broken(opened, told), refused, vain, first, furthest)
        broken = broken or _broken(opened, explored, small)
    return Family(list(small), broken, refused, vain, first, furthest)


def _of_the_rule(refused: Sequence[Broken], subject: Subject, opened: Template) -> list[Broken]:
    """What the rule refuses though it contradicts no object of the call."""
    return [each for each in refused if not _contradicts(each[0], subject, opened)]


def _contradicts(refused: Signature, subject: Subject, opened: Template) -> bool:
    """Is an axis of another size than an object of the call states, as that of the subject is? It fits another object."""
    shapes = {leaf.path: leaf.shape for leaf in refused.leaves}
    sizes = (
        (there, taken)
        for leaf in subject.signature.leaves
        for there, taken in zip(shapes.get(leaf.path, ()), leaf.shape, strict=False)
    )
    return any(taken in opened.numbers_of_objects and there != taken for there, taken in sizes)


def _templates(
    parameters: Sequence[Parameter], hints: Hints, small: Sequence[Subject]
) -> Iterator[Template]:
    """A call that fits, with its arrays open; where none fits, calls of the likeliest arguments."""
    for opened in _opened(parameters, hints, small):
        in_parts = with_multiples(opened, hints, {p.name: p.default for p in parameters})
        yield from {
            each.holes: each for each in (with_columns(in_parts), in_parts, opened)
        }.values()


def _opened(
    parameters: Sequence[Parameter], hints: Hints, small: Sequence[Subject]
) -> Iterator[Template]:
    """The calls as they are, whatever divides their axes."""
    kept = list(hints.specs)
    if small:
        first = small[0].signature
        others = _along_other_axes(first, parameters, hints)
        for signature in (*_of_several(first, parameters, hints), first, *others):
            yield template(signature, hints.clues, kept)
        return
    plain = [options(parameter, (3,), hints) for parameter in parameters]
    given = [[*each, *_given(p, hints)] for p, each in zip(parameters, plain, strict=True)]
    keywords = frozenset(p.name for p in parameters if p.keyword_only)
    seen: set[str] = set()
    choices = (by_weight(each, _MOST_TEMPLATES) for each in (plain, given))
    for choice in itertools.chain(*choices):
        arguments = tuple((p.name, v) for p, v in zip(parameters, choice, strict=True))
        opened = template(Signature(arguments, keywords), hints.clues, kept)
        if opened.text not in seen:  # choices of other shapes alone are one call with open arrays
            seen.add(opened.text)
            yield opened


def _of_several(
    signature: Signature, parameters: Sequence[Parameter], hints: Hints
) -> Iterator[Signature]:
    """The call with a larger number for each count that is 1 though another is likelier.

    Beside a count of 1 any axis may be broadcast by chance.
    """
    held = dict(signature.arguments)
    several = signature
    for parameter in parameters:
        value = held.get(parameter.name)
        if isinstance(value, Fixed) and type(value.value) is int and value.value == 1:
            likeliest = next(iter(plain_values(parameter.name, (), hints)), value)
            if type(likeliest.value) is int and likeliest.value > 1:
                several = several.with_argument(parameter.name, likeliest)
    if several is not signature:
        yield several


def _given(parameter: Parameter, hints: Hints) -> list[Leaf]:
    """An array for what is left out by default: what stands for it then may be made of numbers that fit nothing."""
    given = optional(parameter) and may_be_floats(parameter.name, hints)
    return [Leaf(parameter.name, (3,), GIVEN)] if given else []


def _along_other_axes(
    signature: Signature, parameters: Sequence[Parameter], hints: Hints
) -> Iterator[Signature]:
    """The call with a number for what is an axis: None, its default, may want other shapes."""
    for parameter in parameters:
        if parameter.default is None and moves_axis(parameter.name, hints):
            for other in plain_values(parameter.name, (), hints)[:_MOST_AXES]:
                yield signature.with_argument(parameter.name, other)


def _broken(
    opened: Template, explored: Exploration, small: Sequence[Subject] = ()
) -> Broken | None:
    """Shapes that the function takes and its rule refuses, where a source states them.

    Where the rule takes other ones, or small ones of as many axes as are stated, it must state them for every array;
    where it takes none at all, for half of those that are differentiated: beside one table of a stated shape, all
    others may be what nobody means. A single one is broadcast by no other.
    Kernels take shapes by accident, for they see none: there what raises has to be wrong whatever these are.
    """
    if explored.subject is not None and explored.subject.kernels:
        return next((each for each in explored.refused if each[1].certain), None)
    settled = [hole.settled for hole in opened.holes]
    free = [hole.settled for hole in opened.holes if hole.kind == "float"] or settled
    enough = any(settled) if len(free) == 1 else 2 * sum(free) >= len(free)
    taken = explored.subject is not None or any(_has_stated_axes(each, opened) for each in small)
    stated = all(settled) if taken else enough
    refused = [each for each in explored.refused if not each[0].is_empty]
    if not refused or not stated:
        return None
    signature, error = refused[0]
    return signature, error.surely()


def _chosen(small: Sequence[Subject], rich: Subject) -> list[Subject]:
    shapes = _shapes(rich)
    if not _is_elementwise([*small, rich]):
        return [rich]
    if len(set(shapes)) == 1 and any(len(set(_shapes(s))) == 1 and _shapes(s)[0] for s in small):
        return list(small)
    return [*small, rich]


def _is_meant(subject: Subject, opened: Template) -> bool:
    """Has each array the axes that a source states at least, and no two one shape of which it states different ones?"""
    stated = {hole.path: hole.dims for hole in opened.holes if hole.dims is not None}
    least = {hole.path: hole.least_rank for hole in opened.holes}
    said: dict[tuple[int, ...], tuple[str, ...]] = {}
    fixed = ((n, v.value) for n, v in subject.signature.arguments if isinstance(v, Fixed))
    if any(np.ndim(v) < least.get(n, 0) for n, v in fixed if isinstance(v, np.ndarray)):
        return False
    return all(len(leaf.shape) >= least.get(leaf.path, 0) for leaf in subject.leaves) and all(
        said.setdefault(leaf.shape, stated[leaf.path]) == stated[leaf.path]
        for leaf in subject.leaves
        if leaf.path in stated
    )


def _has_stated_axes(subject: Subject, opened: Template) -> bool:
    """Has each array of which a source states the axes so many, and axes of different names sizes of their own?"""
    shapes = {leaf.path: leaf.shape for leaf in subject.leaves}
    stated = [(h.dims, shapes[h.path]) for h in opened.holes if h.dims and h.path in shapes]
    if not stated or any(len(dims) != len(shape) for dims, shape in stated):
        return False
    pairs = {pair for dims, shape in stated for pair in zip(dims, shape, strict=True)}
    names, sizes = ({pair[k] for pair in pairs} for k in (0, 1))
    return len(names) == len(sizes) == len(pairs) and _is_meant(subject, opened)


def _is_elementwise(subjects: Sequence[Subject]) -> bool:
    """Does each result rest on the elements at its own place, where all arrays are of one shape?"""
    for subject in subjects:
        shapes = set(_shapes(subject))
        primal = subject.traces().primal
        if primal is None:  # nobody knows; but what reads a table reads other places
            return all(next(tables(each.signature), None) is None for each in subjects)
        if len(shapes) == 1 and shapes != {()}:
            return primal.primitives() <= _ELEMENTWISE
    return False


def _shapes(subject: Subject) -> list[tuple[int, ...]]:
    """Shapes of the arrays, but of defaults that are moved a little."""
    return [leaf.shape for leaf in subject.leaves if leaf.centre is None]
