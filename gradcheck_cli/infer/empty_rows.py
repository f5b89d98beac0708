"""Masks, and tables with a mark, of which one row is left out as a whole: what divides by how many there are says what it does without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import Fixed, Signature
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_USUAL = 0.5  # of every number: within most domains


def with_an_empty_row(
    gradient: CustomGradient, signature: Signature, name: str, dtype: str
) -> list[Fixed]:
    """For a mask of several rows one whose last row is all false, if the function has a number there.

    For a table of integers of which some are below zero, as `-1` for what is not known, one whose last row is all such.
    """
    here = dict(signature.arguments)[name]
    value = here.value if isinstance(here, Fixed) else None
    if not isinstance(value, np.ndarray) or value.ndim < 2 or len(value) < 2:
        return []
    if value.dtype != bool and not (value.dtype.kind == "i" and value.min() < 0):
        return []
    empty = value.copy()
    empty[-1] = False if value.dtype == bool else value.min()
    other = replace(here, value=empty, source=f"{here.source}, the last row empty")
    return [other] if _is_finite(signature.with_argument(name, other), gradient, dtype) else []


def _is_finite(signature: Signature, gradient: CustomGradient, dtype: str) -> bool:
    """Are all values of the function numbers at usual inputs?"""
    try:
        subject = fitted(gradient, signature, dtype)
        points = [np.full((1, *leaf.shape), _USUAL) for leaf in subject.leaves]
        return all(bool(np.isfinite(v).all()) for v in subject.primal_values(points))
    except (Rejected, RuleError, UserCodeError):
        return False
