"""A gradient at a signature that inference made up: refused too where its results hold no numbers."""

from __future__ import annotations

import math

from gradcheck_cli.infer.little_memory import little_memory
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected


def fitted(gradient: CustomGradient, signature: Signature, dtype: str) -> Subject:
    """The subject; a window that is longer than its axis leaves nothing to judge."""
    with little_memory():
        subject = gradient.fit(signature, dtype)
    empty = any(math.prod(shape) == 0 for shape in subject.outputs)
    if empty and all(leaf.size for leaf in subject.leaves):
        raise Rejected("its result is empty")
    return subject
