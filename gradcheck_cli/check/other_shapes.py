"""Other shapes that the function takes, where those at hand leave some changes nothing to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradcheck_cli.adequacy.change import Change
from gradcheck_cli.adequacy.possible import possible
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_BATCH, _ROW = 5, 3
_MOST_TRIES = 5
_DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


def other_shapes(
    request: Request, subjects: Sequence[Subject], outcome: GradientOutcome
) -> GradientOutcome:
    """Changes that shapes which the function takes would show, each with the comment that asks for them."""
    left = outcome.showings.degenerate
    if outcome.is_wrong:
        return GradientOutcome()
    with request.progress.timing("adequacy"):
        return GradientOutcome(possible=tuple(_shown_elsewhere(request, subjects, left)))


def _shown_elsewhere(
    request: Request, subjects: Sequence[Subject], changes: Sequence[Change]
) -> Iterator[tuple[Change, str]]:
    """Each of these changes with the comment for the first shapes that would show it."""
    left = list(changes)
    raised = [s for subject in reversed(subjects) for s in _raised(subject.signature, left)]
    tries = {str([(leaf.path, leaf.shape) for leaf in s.leaves]): s for s in raised}
    for signature in list(tries.values())[:_MOST_TRIES]:
        if not left:
            break
        dtype = subjects[0].dtype
        try:
            there = possible(left, request.gradient.fit(signature, dtype))
        except RuleError:  # the function takes it: so what the rule makes of it is open
            there = left
        except (Rejected, UserCodeError):
            continue
        hint = f"`# cgcheck: {_comment(signature, dtype)}`"
        yield from ((change, hint) for change in there)
        left = [change for change in left if change not in there]


def _raised(signature: Signature, changes: Sequence[Change]) -> Iterator[Signature]:
    """A batch of the first of the largest arguments that the changes concern, of all these, of all."""
    leaves = signature.leaves
    reached = {i for change in changes for i in change.leaves if i < len(leaves)}
    rank = max((len(leaves[i].shape) for i in reached), default=0)
    largest = sorted(i for i in reached if len(leaves[i].shape) == rank)
    yield _with_batch(signature, set(largest[:1]))
    yield _with_batch(signature, set(largest))
    yield _with_batch(signature, set(range(len(leaves))))


def _with_batch(signature: Signature, numbers: set[int]) -> Signature:
    """The signature with an axis more for these leaves, counted from the first; a default is no array."""
    count = iter(range(len(signature.leaves)))

    def raised(value: object) -> object:
        if isinstance(value, Leaf):
            inside = not numbers.isdisjoint([next(count) for _ in value.parts])
            shape = (_BATCH, *value.shape) if value.shape else (_ROW,)
            raised = inside and value.centre is None
            return replace(value, shape=shape, recorded=None) if raised else value
        return value

    return signature.changed(raised)


def _comment(signature: Signature, dtype: str) -> str:
    """The arrays of the signature as a comment says them."""
    leaves = [leaf for leaf in signature.whole_leaves if leaf.path.isidentifier()]
    each = [
        f"{leaf.path}={'c64' if leaf.is_complex else _DTYPES[dtype]}[{' '.join(map(str, leaf.shape))}]"
        for leaf in leaves
    ]
    return ", ".join(each)
