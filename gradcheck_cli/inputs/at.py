"""`--at "x=100, y=2"`: points that the user asks for, before all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.pairs import parse_pairs
from gradcheck_cli.inputs.spec import Leaf


def parse_at(wanted: Sequence[str], leaves: Sequence[Leaf], fmt: Format, points: Points) -> Points:
    """The points with the asked-for ones in front; arguments not named keep their plainest value."""
    rows = [row for text in wanted if (row := _row(parse_pairs(text), leaves)) is not None]
    if not rows:
        return points
    arrays = []
    for i, leaf in enumerate(leaves):
        plain = points.leaves[i][0]
        asked = [np.full(leaf.shape, row[leaf.path]) if leaf.path in row else plain for row in rows]
        arrays.append(np.concatenate([fmt.round(np.stack(asked)), points.leaves[i]]))
    return Points(arrays, ["asked for"] * len(rows) + points.recipes)


def _row(pairs: dict[str, float], leaves: Sequence[Leaf]) -> dict[str, float] | None:
    """Only for signatures that know one of the names."""
    return pairs if any(leaf.path in pairs for leaf in leaves) else None
