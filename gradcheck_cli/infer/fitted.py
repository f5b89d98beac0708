"""A gradient at a signature that inference made up: refused too where its results hold no numbers."""

from __future__ import annotations

import math

from gradcheck_cli.infer.little_memory import little_memory
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected

EMPTY = "its result is empty"


def fitted(gradient: CustomGradient, signature: Signature, dtype: str) -> Subject:
    """The subject; arrays too large to be made, and a window longer than its axis, leave nothing to judge."""
    try:
        with little_memory():
            subject = gradient.fit(signature, dtype)
    except MemoryError:  # of the arrays that are made for it
        raise Rejected("its arguments want more memory than there is") from None
    empty = any(math.prod(shape) == 0 for shape in subject.outputs)
    if empty and all(leaf.size for leaf in subject.leaves):
        raise Rejected(EMPTY)
    return subject
