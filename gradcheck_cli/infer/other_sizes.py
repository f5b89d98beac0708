"""The richest call again where a text does more with other sizes: odd, longer, more of them, one axis more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.more_axes import leaves_axes_open, with_more_axes
from gradcheck_cli.infer.more_items import with_more_items
from gradcheck_cli.infer.richer import longer, odd
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_MOST_SIZES = 4  # calls that are tried for one with an odd or a longer axis
_MOST_TIMES = 3  # as many steps as the call that is made longer


def other_sizes(
    gradient: CustomGradient, signature: Signature, dtype: str, hints: Hints
) -> list[Subject]:
    """The richest call with an odd axis, where the text takes half of one, a longer one, where it loops, or one more."""
    found: list[Subject] = []
    if hints.halves:
        found += itertools.islice(_that_fit(gradient, odd(signature, hints), dtype), 1)
    if hints.loops:
        here = map(_steps, _that_fit(gradient, iter([signature]), dtype))
        most = _MOST_TIMES * max(here, default=0)
        each = _that_fit(gradient, longer(signature, hints), dtype)
        more = _that_fit(gradient, with_more_items(signature), dtype)
        for several in (each, more):
            found += itertools.islice((s for s in several if _steps(s) <= most), 1)
    otherwise = any(clue.otherwise for each in hints.clues.values() for clue in each)
    if hints.counts_axes or otherwise or leaves_axes_open(hints.clues):
        higher = with_more_axes(gradient, signature, dtype, hints)
        found += [] if higher is None else [higher]
    return found


def _that_fit(
    gradient: CustomGradient, signatures: Iterator[Signature], dtype: str
) -> Iterator[Subject]:
    for other in itertools.islice(signatures, _MOST_SIZES):
        try:
            subject = fitted(gradient, other, dtype)
            subject.traces()
        except (Rejected, RuleError):  # it may be meant for the others alone
            continue
        yield subject


def _steps(subject: Subject) -> int:
    """How many steps function and rule take: a loop over the corners of a cube doubles them with each axis."""
    traces = subject.traces()
    return sum(
        len(program.steps) for program in (traces.primal, traces.rule) if program is not None
    )
