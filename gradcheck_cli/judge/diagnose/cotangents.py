"""The cotangent is used in part, or in another form."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gradcheck_cli.judge.diagnose.case import Array, Case, Elsewhere

_FORMS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("the cotangent is not used: it is taken as 1", np.ones_like),
    ("the cotangent is squared", np.square),
    ("only the size of the cotangent is used, not its sign", np.abs),
    ("only the sign of the cotangent is used", np.sign),
    ("the cotangent is clipped to [-1, 1]", lambda ct: np.clip(ct, -1, 1)),
    ("only the first element of the cotangent is used", lambda ct: _spread(ct, _first(ct))),
    ("the sum of the cotangent is used for each of its elements", lambda ct: _spread(ct, _total(ct))),
    ("the mean of the cotangent is used for each of its elements", lambda ct: _spread(ct, _total(ct) / max(1, ct[0].size))),
)  # fmt: skip


def cotangents(case: Case) -> Iterator[Elsewhere]:
    """The truth with other cotangents: in another form, one left out, two exchanged."""
    for text, form in _FORMS:
        yield Elsewhere(text, case.points, [form(ct) for ct in case.cotangents])
    count = len(case.cotangents)
    for k in range(count) if count > 1 else ():
        without = [np.zeros_like(ct) if i == k else ct for i, ct in enumerate(case.cotangents)]
        yield Elsewhere(f"the cotangent of output {k} is ignored", case.points, without)
    if count == 2 and case.cotangents[0].shape == case.cotangents[1].shape:
        swapped = [case.cotangents[1], case.cotangents[0]]
        yield Elsewhere("the cotangents of the two outputs are exchanged", case.points, swapped)


def _first(ct: Array) -> Array:
    return ct.reshape(len(ct), -1)[:, :1]


def _total(ct: Array) -> Array:
    return np.asarray(ct.reshape(len(ct), -1).sum(axis=1, keepdims=True))


def _spread(ct: Array, each: Array) -> Array:
    return np.broadcast_to(each, (len(ct), ct[0].size)).reshape(ct.shape)
