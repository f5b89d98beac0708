"""A subject again with fewer axes of one array, where these broadcast: its results keep their shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError


def fewer_axes(
    gradient: CustomGradient, subject: Subject, leaf: Leaf
) -> Iterator[tuple[Subject, Leaf]]:
    """The subject with this array one, two … axes lower, and the array as it is there."""
    for dropped in range(1, len(leaf.shape)):
        lower = replace(leaf, shape=leaf.shape[dropped:], axes=leaf.axes[dropped:])
        try:
            fewer = fitted(gradient, _with(subject.signature, lower), subject.dtype)
        except (Rejected, RuleError, UserCodeError):
            continue
        if fewer.outputs == subject.outputs:
            yield fewer, lower


def all_alike(gradient: CustomGradient, subject: Subject, leaf: Leaf) -> Subject | None:
    """The subject with all its arrays of this one's shape, so that nothing is broadcast; none where it is refused."""

    def change(part: object) -> object:
        if isinstance(part, Leaf) and part.shape and part.path != leaf.path:
            return replace(part, shape=leaf.shape, axes=leaf.axes, recorded=None)
        return part

    signature = subject.signature.changed(change)
    if signature == subject.signature:
        return subject
    try:
        return fitted(gradient, signature, subject.dtype)
    except (Rejected, RuleError, UserCodeError):
        return None


def _with(signature: Signature, leaf: Leaf) -> Signature:
    def change(part: object) -> object:
        return leaf if isinstance(part, Leaf) and part.path == leaf.path else part

    return signature.changed(change)
