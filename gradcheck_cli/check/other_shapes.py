"""Other shapes that the function takes, where those at hand leave some changes nothing to change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradcheck_cli.adequacy.change import Change
from gradcheck_cli.adequacy.possible import possible, reached
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Verdict
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.richer import larger, with_other_entries
from gradcheck_cli.inputs.signature import Hints, Leaf, Signature
from gradcheck_cli.project.verdict import verdict
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
    if verdict(outcome.findings) is Verdict.WRONG:
        return GradientOutcome()
    with request.progress.timing("adequacy"):
        return GradientOutcome(possible=tuple(_shown_elsewhere(request, subjects, left)))


def richer_subjects(
    request: Request, subjects: Sequence[Subject], hints: Hints, outcome: GradientOutcome
) -> list[Subject]:
    """A subject of larger sizes and one with another table, which function and rule take, if these show more.

    None where the rule is wrong already: there is nothing to add.
    """
    if verdict(outcome.findings) is Verdict.WRONG:
        return []
    last, open_ = subjects[-1], outcome.showings.unseen
    by_table = {table: [c for c in open_ if c.table == table] for table in (c.table for c in open_)}
    with request.progress.timing("adequacy"):
        sized = _first(request, last, larger(last.signature, hints), outcome.showings.degenerate)
        others = [
            subject
            for table, changes in by_table.items()
            if table is not None
            for subject in _first(request, last, with_other_entries(last.signature, table), changes)
        ]
    return [*sized, *others]


def _first(
    request: Request, last: Subject, signatures: Iterator[Signature], changes: Sequence[Change]
) -> list[Subject]:
    """The subject of the first signature that would show one of the changes."""
    if not changes:
        return []
    for signature in itertools.islice(signatures, _MOST_TRIES):
        try:
            there = fitted(request.gradient, signature, last.dtype)
            shown = possible(changes, there) or reached(changes, there)
        except (Rejected, RuleError, UserCodeError):
            continue
        if shown:
            return [there]
    return []


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
    """The signature with an axis more for these leaves, counted from the first."""
    count = iter(range(len(signature.leaves)))

    def raised(value: object) -> object:
        if isinstance(value, Leaf):
            inside = not numbers.isdisjoint([next(count) for _ in value.parts])
            shape = (_BATCH, *value.shape) if value.shape else (_ROW,)
            return replace(value, shape=shape, recorded=None) if inside else value
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
