"""What the ways of every framework share: weights for a second derivative, and when two firsts agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.frameworks.seam import Array
from gradcheck_cli.inputs.spec import Leaf

# A second derivative is weighed with numbers that no two elements share.
WEIGHTS = (0.75, -1.25, 0.5, 1.5, -0.625)

# A call at other numbers that must not disturb the first: what a rule keeps is each call's own.
BETWEEN = "with another call in between"
ELSEWHERE = 0.75
KEEP_IT = (
    "keep what the backward needs with the call itself: in the residuals, by `ctx.save_for_backward`, in the "
    "grad function's closure"
)


def shares(size: int) -> Array:
    return np.resize(WEIGHTS, size)


def near(some: Sequence[Array], others: Sequence[Array]) -> bool:
    """Within half of the digits of a float32 beside the largest: the second is worth a look."""
    return all(np.isfinite(b).all() for b in others) and all(
        np.allclose(a, b, rtol=0, atol=2.0**-12 * max(1e-30, float(np.abs(b).max(initial=0))))
        for a, b in zip(some, others, strict=True)
    )


def alike(leaves: Sequence[Leaf]) -> tuple[int, int] | None:
    """Two arguments that one array can stand for."""
    for j, leaf in enumerate(leaves):
        for i in range(j):
            if leaves[i].shape == leaf.shape:
                return i, j
    return None


def summed(gradients: Sequence[Array], pair: tuple[int, int]) -> list[Array]:
    """What one array gets that stands for two: both gradients, in the place of the first."""
    i, j = pair
    both = [np.array(g) for g in gradients]
    both[i] = both[i] + both[j]
    both[j] = np.zeros_like(both[j])
    return both
