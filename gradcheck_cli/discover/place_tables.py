"""Integers for a parameter of which the text takes places: what it counts, sums segments by, unpacks in pairs, or goes up by in a tree."""

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
# `parent[node] >= 0`, and words for a tree: each node's place above it, and -1 at the root.
_ENDS_BELOW_ZERO = (
    r"\b{name}\s*(?:\[[^\[\]]*\])?\s*(?:<\s*0\b|>=\s*0\b|[!=]=\s*-\s*1\b|>\s*-\s*1\b)"
)
_OF_TREES = re.compile(
    r"(?<![a-z])(?:parents?|ancestors?|receivers?|outlets?|trees?)(?![a-z])|\broots? (?:nodes?|at -1|is -1)\b|\bdownstream\b|\bno loops\b",
    re.IGNORECASE,
)
_TREE = (-1, 0, 0, 1, 2, 1)  # each behind the one that it hangs on
_TABLE = (0, 2, 1, 0, 1, 2, 2, 0)  # each place more than once, in no order
_PAIRS = ((0, 1), (1, 2), (0, 2), (2, 1))


def places(name: str, written: str) -> list[Any]:
    """A table of places, if the text takes the parameter for one; that of a tree, if it ends at -1."""
    ends = re.search(_ENDS_BELOW_ZERO.format(name=re.escape(name)), written)
    if ends and _OF_TREES.search(written):
        return [np.array(_TREE, np.int32)]
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
