"""A subject again with fewer axes of some arrays: where these broadcast, or are single numbers by their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.template import is_guessed
from gradcheck_cli.inputs.names import is_single
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError


def fewer_axes(
    gradient: CustomGradient, subject: Subject, leaves: Sequence[Leaf]
) -> Iterator[tuple[Subject, Sequence[Leaf]]]:
    """The subject with these arrays one, two … axes lower, beside another that keeps its own; and these arrays there."""
    most = max(len(leaf.shape) for leaf in leaves)
    paths = {leaf.path for leaf in leaves}
    others = [leaf for leaf in subject.signature.whole_leaves if leaf.path not in paths]
    if not any(len(other.shape) >= most for other in others):
        return  # what has no other array beside it that is as large is the function's own
    for dropped in range(1, most + (len(leaves) > 1)):
        lower = [
            replace(leaf, shape=leaf.shape[dropped:], axes=leaf.axes[dropped:]) for leaf in leaves
        ]
        try:
            fewer = fitted(gradient, _with(subject.signature, lower), subject.dtype)
        except (Rejected, RuleError, UserCodeError):
            continue
        if fewer.outputs == subject.outputs:
            yield fewer, lower


def single_by_name(subject: Subject, elsewhere: Collection[str] = ()) -> list[Leaf]:
    """The arrays of guessed shapes that are single numbers by their names, or by what texts elsewhere say of these."""
    guessed = (x for x in subject.signature.whole_leaves if x.shape and is_guessed(x))
    return [x for x in guessed if is_single(x.path) or x.path in elsewhere]


def as_single_numbers(
    gradient: CustomGradient, subject: Subject, leaves: Sequence[Leaf], *, said: bool
) -> Iterator[tuple[Subject, Sequence[Leaf]]]:
    """The subject with one number for each of these arrays, if function and rule take that; and these numbers.

    Unless a name or a text says so, the outputs are as they were: what becomes smaller with an argument is made of it.
    """
    lower = [replace(leaf, shape=(), axes=()) for leaf in leaves]
    try:
        alone = fitted(gradient, _with(subject.signature, lower), subject.dtype)
    except (Rejected, RuleError, UserCodeError):
        return
    if said or alone.outputs == subject.outputs:
        yield alone, lower


def _with(signature: Signature, leaves: Sequence[Leaf]) -> Signature:
    by_path = {leaf.path: leaf for leaf in leaves}

    def change(part: object) -> object:
        return by_path.get(part.path, part) if isinstance(part, Leaf) else part

    return signature.changed(change)
