"""Variants of a signature, for each argument that selects, scales or may be left out: faults hide there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradcheck_cli.infer.explore import Explorer
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.given import given_numbers
from gradcheck_cli.infer.multiples import with_multiples
from gradcheck_cli.infer.overlap import overlapping, slides
from gradcheck_cli.infer.static_values import plain_values, stated_kind
from gradcheck_cli.infer.template import Template, template
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.names import fixed_by_name, is_axis, leaves_out
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Hints, Leaf, Parameter, Signature, tables
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_MOST = 5
_MOST_EACH = 2  # of one argument: words are few, axes two
_MOST_EXPLORED = 3
_MOST_WINDOWS = 2  # pairs of a length and a step

Broken = tuple[Signature, RuleError]
Preference = Callable[[Signature], bool]


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
    trial = _Trial(gradient, dtype, hints)
    signature = fitting[0]
    arguments = dict(signature.arguments)
    left_out = [p.name for p in parameters if arguments[p.name] is OMITTED and _optional(p)]
    if len(left_out) > 1:  # what is left out together may be needed together
        for other in fitting:
            first = other.leaves[0].shape
            trial.fit(other, _leaves(left_out, [first, *[()] * (len(left_out) - 1)]))
            trial.fit(other, _leaves(left_out, [first] * len(left_out)))
    _overlap(trial, signature, parameters)
    for changed in _together(parameters, signature, hints):
        trial.fit(signature, changed)
    for parameter in parameters:
        _vary(trial, signature, parameter)
    if trial.broken is not None:
        return Variants([], trial.broken)
    return Variants(trial.fitting[:_MOST], misfit=trial.misfit)


def _vary(trial: _Trial, signature: Signature, parameter: Parameter) -> None:
    """Other values of one argument, until a few of them fit."""
    here = dict(signature.arguments)[parameter.name]
    others = [
        *_left_out(parameter, here, signature),
        *_others(parameter, here, signature, trial.hints),
    ]
    plain = all(isinstance(other, Fixed) for other in others)
    counts = type(_value(parameter, here)) is int
    wanted = _MOST_EACH if plain and (counts or _selects(parameter.name, trial.hints)) else 1
    fitting = 0
    for other in others:
        fitting += trial.fit(signature, {parameter.name: other})
        if fitting == wanted:
            return


def _overlap(trial: _Trial, signature: Signature, parameters: Sequence[Parameter]) -> None:
    """Windows that overlap, and more than one of them: what they share adds up."""
    for window in trial.hints.windows[:_MOST_WINDOWS]:
        told = slides(trial.gradient, trial.dtype, window)
        for changed in overlapping(signature, parameters, window):
            here = dict(signature.arguments)
            same = all(_same(getattr(here[n], "value", None), v.value) for n, v in changed.items())
            if (same and told(signature)) or trial.fit(signature, changed, told):
                return


def _left_out(parameter: Parameter, here: Any, signature: Signature) -> list[Fixed]:
    """For an integer whose rows do not count, one that is there."""
    value = _value(parameter, here)
    if not leaves_out(parameter.name) or not isinstance(value, int):
        return []
    present = [int(array.max()) for _, array in tables(signature) if array.dtype != bool]
    return [Fixed(n, str(n), "one of the integers that are tried") for n in present[:1]]


def _optional(parameter: Parameter) -> bool:
    return parameter.default is None and parameter.differentiable


def _chooses(name: str, hints: Hints) -> bool:
    """Does the argument choose between ways of computing, all of which the function means?"""
    return _moves_axis(name, hints) or stated_kind(hints.clues.get(name, ())) is Kind.WORD


def _selects(name: str, hints: Hints) -> bool:
    """Is the argument worth several values: ways of computing, windows, steps?"""
    return _chooses(name, hints) or stated_kind(hints.clues.get(name, ())) is Kind.WHOLE


def _together(
    parameters: Sequence[Parameter],
    signature: Signature,
    hints: Hints,
) -> Iterator[dict[str, Any]]:
    """An axis and a flag moved together: `axis=0, keepdims=True`."""
    arguments = dict(signature.arguments)
    axes = [p for p in parameters if _moves_axis(p.name, hints)]
    flags = [p for p in parameters if isinstance(_value(p, arguments[p.name]), bool)]
    for axis, flag in itertools.product(axes[:1], flags[:1]):
        flipped = next(iter(_others(flag, arguments[flag.name], signature, hints)))
        for other in _others(axis, arguments[axis.name], signature, hints):
            if isinstance(other, Fixed) and isinstance(other.value, int):
                yield {axis.name: other, flag.name: flipped}
                break


def _moves_axis(name: str, hints: Hints) -> bool:
    return stated_kind(hints.clues.get(name, ())) is Kind.AXIS or is_axis(name)


def _value(parameter: Parameter, here: Any) -> Any:
    return here.value if isinstance(here, Fixed) else parameter.default


def _shapes(signature: Signature) -> list[tuple[int, ...]]:
    """The shapes of its arrays, each once."""
    return list(dict.fromkeys(leaf.shape for leaf in signature.leaves))


def _leaves(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    pairs = zip(names, shapes, strict=True)
    return {name: Leaf(name, shape, "given, not left out") for name, shape in pairs}


@dataclass(slots=True)
class _Trial:
    """A trial of signatures: the subjects that fit, and the first signature at which the rule is certainly broken."""

    gradient: CustomGradient
    dtype: str
    hints: Hints
    fitting: list[Subject] = field(default_factory=list)
    broken: Broken | None = None
    misfit: Broken | None = None
    explored: int = 0

    def fit(
        self, signature: Signature, changed: Mapping[str, Any], prefers: Preference | None = None
    ) -> bool:
        """The signature with these arguments, if function and rule take it; in other shapes if need be."""
        arguments = tuple((n, changed.get(n, v)) for n, v in signature.arguments)
        tried = Signature(arguments, signature.keywords)
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

    def _refused(self, tried: Signature, changed: Mapping[str, Any], error: RuleError) -> bool:
        """The rule refuses what the function takes; that it refuses these sizes alone is no certain error."""
        if not error.certain and not self._alone_to_blame(tried, changed, error):
            return False
        elsewhere = None if error.certain else self._in_other_shapes(tried, _as_before)
        if elsewhere is not None and all(_differing(leaf.shape) for leaf in elsewhere.leaves):
            self.misfit = self.misfit or (tried, error)
            self.fitting.append(elsewhere)
            return True
        sure = RuleError(error.stage, error.message, certain=True, silent=error.silent)
        self.broken = self.broken or (tried, sure)
        return False

    def _alone_to_blame(
        self, tried: Signature, changed: Mapping[str, Any], error: RuleError
    ) -> bool:
        """Does the rule fail for another axis, word or flag alone, at an array that it takes otherwise?

        Of several arrays another axis may want other shapes; what raises on purpose says so by its type.
        """
        chosen = all(
            isinstance(value, Fixed)
            and (_chooses(name, self.hints) or isinstance(value.value, bool))
            for name, value in changed.items()
        )
        by_position = not changed.keys() & tried.keywords
        deliberate = error.stage == NotImplementedError.__name__
        return chosen and by_position and len(tried.leaves) == 1 and not deliberate

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
        """The subject of the call in the richest shapes that function and rule take."""
        opened = template(refused, self.hints.clues, list(self.hints.specs))
        opened = opened if narrowed is None else narrowed(opened, refused)
        if self.explored >= _MOST_EXPLORED or not opened.holes:
            return None
        self.explored += 1
        in_parts = with_multiples(opened, self.hints, self.defaults)
        for each in (in_parts, opened) if in_parts != opened else (opened,):
            subject = Explorer(self.gradient, self.dtype, each, prefers).explored().subject
            if subject is not None:
                return subject
        return None

    @property
    def defaults(self) -> dict[str, object]:
        return {parameter.name: parameter.default for parameter in self.gradient.parameters()}


def _differing(shape: tuple[int, ...]) -> bool:
    """Are no two axes equal, so that one taken for another would show?"""
    return len(set(shape)) == len(shape)


def _as_before(opened: Template, signature: Signature) -> Template:
    """The call with its arrays open, but of as many axes as before."""
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    holes = [replace(hole, rank=ranks.get(hole.path, hole.rank)) for hole in opened.holes]
    return replace(opened, holes=tuple(holes))


def _others(parameter: Parameter, here: Any, signature: Signature, hints: Hints) -> Iterator[Any]:
    """Other values of the argument, likeliest first."""
    if isinstance(here, Leaf) or (not isinstance(here, Fixed) and here is not OMITTED):
        return
    value = _value(parameter, here)
    if hasattr(value, "shape"):
        return
    if parameter.name in hints.specs:
        return
    shapes = _shapes(signature)
    plain = plain_values(parameter.name, shapes[0], hints)
    if here is OMITTED and _optional(parameter):
        yield from (f for f in plain if f.value is not None)
        yield from (Leaf(parameter.name, s, "given, not left out") for s in (*shapes, ()))
        return
    if here is OMITTED and parameter.default is None:
        yield from given_numbers(parameter.name, signature, hints)
    if isinstance(value, bool):
        yield Fixed(not value, str(not value), "the flag the other way")
        return
    if here is OMITTED and isinstance(value, float) and not _others_stated(parameter, hints):
        yield from _nearby(value)
    if here is OMITTED and isinstance(value, tuple) and not _moves_axis(parameter.name, hints):
        yield from _moved(value)
    yield from (f for f in plain if not _same(f.value, value) and not hasattr(f.value, "shape"))
    named = fixed_by_name(parameter.name, shapes[0], None)
    if isinstance(here, Fixed) and type(value) is int and not plain and not named:
        yield from (Fixed(n, str(n), "beside the first guess") for n in (value - 1, value + 1) if n > 0)  # fmt: skip
    if here is OMITTED and isinstance(value, int) and value and not named:
        yield Fixed(value + 1, str(value + 1), "off its default")


def _others_stated(parameter: Parameter, hints: Hints) -> bool:
    """Does a source state values beside the default, or a name one?"""
    clues = hints.clues.get(parameter.name, ())
    others = any(not _same(v, parameter.default) for clue in clues for v in clue.values)
    return others or bool(fixed_by_name(parameter.name, (), None))


def _nearby(default: float) -> Iterator[Fixed]:
    """A smaller and a larger number: what is far from a default may be none that the function takes.

    An exponent of 1.5 is one between 1 and 2, a momentum of 0.9 lies below 1.
    """
    for moved in (0.75 * default, 1.25 * default):
        if moved:
            yield Fixed(moved, repr(moved), "off its default")


def _moved(default: tuple[Any, ...]) -> Iterator[Fixed]:
    """Another pair or triple of numbers: a domain of another length than (−1, 1), another padding."""
    if default and all(type(number) is float for number in default):
        moved = tuple(round(n * (5 + i) / 4, 12) for i, n in enumerate(default))
        yield Fixed(moved, repr(moved), "off its default")
    elif default and all(type(number) is int and number > 0 for number in default):
        more = tuple(number + 1 for number in default)
        yield Fixed(more, repr(more), "off its default")


def _same(one: object, other: object) -> bool:
    """Equal and of one type: True is no 1. Types that compare in their own way are never asked."""
    return type(one) is type(other) and repr(one) == repr(other)
