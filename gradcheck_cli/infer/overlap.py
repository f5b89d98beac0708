"""Calls at which windows that slide overlap: what they share adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gradcheck_cli.clues.windows import Window
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import Fixed, Leaf, Parameter, Signature
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.refusals import Rejected, RuleError

_OVERLAPPING = ((3, 2), (2, 1))  # a length and a step, the most telling first
_OTHER = object()  # neither a whole number nor several of them
_SOURCE = "windows that overlap"
_FAR = 64  # a step after which no second window fits

Sizes = int | tuple[int, ...]


def overlapping(
    signature: Signature, parameters: Sequence[Parameter], window: Window
) -> Iterator[dict[str, Fixed]]:
    """Arguments at which windows overlap, the most telling first; none where these are no whole numbers."""
    length, step = (_sizes(signature, parameters, name) for name in window)
    given = dict(signature.arguments).get(window[0])
    if step is _OTHER:
        return
    if isinstance(given, Leaf):
        if len(given.shape) == 1 and given.shape[0] > 1:
            yield {window[1]: _fixed(_like(given.shape[0] - 1, step))}
    elif isinstance(length, int):
        for long, far in _OVERLAPPING:
            yield {window[0]: _fixed(long), window[1]: _fixed(_like(far, step))}
    elif isinstance(length, tuple) and length:
        pairs = [_OVERLAPPING[i % len(_OVERLAPPING)] for i in range(len(length))]
        steps = tuple(far for _, far in pairs)
        far_enough = min(steps) if isinstance(step, int) else steps
        yield {window[0]: _fixed(tuple(long for long, _ in pairs)), window[1]: _fixed(far_enough)}


def slides(gradient: CustomGradient, dtype: str, window: Window) -> Callable[[Signature], bool]:
    """A test of calls: are there two windows or more, along each axis that has a step of its own?"""
    step = window[1]

    def results(signature: Signature) -> Sequence[tuple[int, ...]] | None:
        try:
            return list(fitted(gradient, signature, dtype).outputs)
        except (Rejected, RuleError):
            return None

    def told(signature: Signature) -> bool:
        given, here = dict(signature.arguments).get(step), results(signature)
        value = given.value if isinstance(given, Fixed) else None
        steps = value if isinstance(value, tuple) else (value,)
        for place in range(len(steps)):
            far = tuple(_FAR if i == place else n for i, n in enumerate(steps))
            there = _with(signature, {step: _fixed(far if isinstance(value, tuple) else _FAR)})
            if here is not None and results(there) == here:
                return False
        return True

    return told


def _with(signature: Signature, changed: dict[str, Fixed]) -> Signature:
    arguments = tuple((name, changed.get(name, value)) for name, value in signature.arguments)
    return Signature(arguments, signature.keywords)


def _like(number: int, step: object) -> Sizes:
    """The number, for each axis where the step has several."""
    return (number,) * len(step) if isinstance(step, tuple) else number


def _fixed(value: Sizes) -> Fixed:
    return Fixed(value, repr(value), _SOURCE)


def _sizes(signature: Signature, parameters: Sequence[Parameter], name: str) -> object:
    """The whole numbers that an argument is, None where it is left out."""
    given = dict(signature.arguments).get(name)
    default = next((p.default for p in parameters if p.name == name), None)
    value = given.value if isinstance(given, Fixed) else default
    parts = value if isinstance(value, tuple) else (value,)
    whole = value is None or all(type(part) is int for part in parts)
    return value if whole else _OTHER
