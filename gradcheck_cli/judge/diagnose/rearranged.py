"""The right numbers in the wrong places: transposed, reversed, shifted, summed over an axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradcheck_cli.judge.diagnose.case import Case, Rearranged


def rearranged(case: Case) -> Iterator[Rearranged]:
    """The truth with its axes exchanged, reversed, shifted or summed; the first axis counts rows."""
    truth = case.truth[case.leaf]
    if truth.ndim >= 3 and truth.shape[-1] == truth.shape[-2]:
        yield Rearranged("it is the truth transposed", np.swapaxes(truth, -1, -2))
    for axis in range(1, truth.ndim):
        if truth.shape[axis] < 2:
            continue
        where = "" if truth.ndim == 2 else f" along axis {axis - 1}"
        yield Rearranged(f"it is the truth in reversed order{where}", np.flip(truth, axis))
        for step in (1, -1):
            yield Rearranged(f"it is the truth shifted by one{where}", np.roll(truth, step, axis))
        total = truth.sum(axis=axis, keepdims=True)
        spread = np.broadcast_to(total, truth.shape)
        yield Rearranged(f"it is the truth summed{where} and spread again", spread)
