"""The gradients of two arguments are in each other's places, or one stands in both."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.judge.diagnose.case import Case, Rearranged


def slots(case: Case) -> Iterator[Rearranged]:
    """The gradient of each other argument of the same shape."""
    for other, gradient in enumerate(case.truth):
        if other != case.leaf and gradient.shape == case.truth[case.leaf].shape:
            yield Rearranged(f"it is the gradient of {case.names[other]}", gradient)
