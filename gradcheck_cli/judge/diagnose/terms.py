"""A term or a factor is missing or too much, or the chain rule stops too early: which, by the exact numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradcheck_cli.judge.diagnose.case import Array, Case, Rearranged
from gradcheck_cli.judge.diagnose.parts import Part


def terms(case: Case, steps: Sequence[Part]) -> Iterator[Rearranged]:
    """The truth without, or with one more of, each thing that it is made of."""
    truth = case.truth[case.leaf]
    fitting = [(part.text, _fitted(part.value, truth)) for part in steps]
    ready = [(text, value) for text, value in fitting if value is not None and _varied(value)]
    for text, value in ready:
        yield Rearranged(f"a term is missing, what comes through {text}", truth - value)
    for text, value in ready:
        yield Rearranged(f"it stops at {text}: the way on from there is missing", value)
    for text, value in ready:
        yield Rearranged(
            f"a term is missing or has the wrong sign, what comes through {text}", truth - 2 * value
        )
    for text, value in ready:
        yield Rearranged(f"a term is there twice, what comes through {text}", truth + value)
    for text, value in ready:
        if all(v.is_finite() and not v.contains(0) for v in value.flat):
            yield Rearranged(f"a factor is missing: {text}", truth / value)
        yield Rearranged(f"a factor is too much: {text}", truth * value)


def _fitted(value: Array, truth: Array) -> Array | None:
    """A part in the shape of the gradient, if it is one number or as many."""
    if value.shape == truth.shape:
        return value
    if value.ndim == 1:
        return np.broadcast_to(value.reshape(-1, *[1] * (truth.ndim - 1)), truth.shape)
    return None


def _varied(value: Array) -> bool:
    """Do its numbers differ? Constants are factors of another kind."""
    first = value.flat[0]
    return any(not v.overlaps(first) for v in value.flat)
