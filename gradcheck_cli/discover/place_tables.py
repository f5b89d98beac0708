"""Integers for a parameter of which the text takes places: what it counts, sums segments by, or unpacks in pairs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# `bincount(house, …)`, `segment_sum(x, house, …)`, `gather(x, house)`, `effects[house]`.
_TAKEN = (
    r"\bbincount\(\s*{name}\b|\bsegment_\w+\([^()]*,\s*{name}\b|\b(?:gather|take|index_select|index_add)\([^()]*,\s*{name}\b"
    r"|[\w\])]\[\s*{name}\s*\]"
)
# `for a, b in pairs`: two of anything, but of numbers most likely places.
_IN_PAIRS = r"\bfor\s+\w+\s*,\s*\w+\s+in\s+{name}\b"
# `edges[:, 0]`, and `bincount`, a gather or a cast to integers says what the columns are.
_COLUMNS = r"\b{name}\[\s*:\s*,\s*[01]\s*\]"
_OF_COLUMNS = (
    r"\b(?:bincount|segment_\w+|unsorted_segment_\w+|gather|take|index_select|index_add|scatter_nd)\([^()]*\b{name}\b"
    r"|\b(?:constant|cast|asarray|array|as_tensor|astype)\(\s*{name}\b[^()]*\bint(?:32|64)?\b|[\w\])]\[\s*{name}\["
)
_TABLE = (0, 2, 1, 0, 1, 2, 2, 0)  # each place more than once, in no order
_PAIRS = ((0, 1), (1, 2), (0, 2), (2, 1))


def places(name: str, written: str) -> list[Any]:
    """A table of places, if the text takes the parameter for one."""
    taken = re.search(_TAKEN.format(name=re.escape(name)), written)
    return [np.array(_TABLE, np.int32)] if taken else []


def pairs(name: str, written: str) -> list[Any]:
    """Pairs of places, if the text unpacks what the parameter holds in pairs, or takes its two columns for places."""
    escaped = re.escape(name)
    if re.search(_IN_PAIRS.format(name=escaped), written):
        return [_PAIRS]
    columns = re.search(_COLUMNS.format(name=escaped), written)
    taken = columns and re.search(_OF_COLUMNS.format(name=escaped), written)
    return [np.array(_PAIRS, np.int32)] if taken else []
