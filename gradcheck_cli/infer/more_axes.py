"""A call with one axis more, where the text counts the axes of an array: `range(x.ndim - 1)` is more than one axis then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gradcheck_cli.infer.explore import Explorer
from gradcheck_cli.infer.template import Hole, template
from gradcheck_cli.inputs.signature import Hints, Signature, root
from gradcheck_cli.subject.protocol import CustomGradient, Subject


def with_more_axes(
    gradient: CustomGradient, signature: Signature, dtype: str, hints: Hints
) -> Subject | None:
    """The call with one axis more of each such array, if function and rule take that; of which a source states the axes, none."""
    opened = template(signature, hints.clues, list(hints.specs))
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    if any(hole.path not in ranks for hole in opened.holes):
        return None
    holes = tuple(_counted(hole, ranks[hole.path], hints.counts_axes) for hole in opened.holes)
    if all(hole.rank == ranks[hole.path] for hole in holes):
        return None
    return Explorer(gradient, dtype, replace(opened, holes=holes)).explored().subject


def _counted(hole: Hole, rank: int, names: Collection[str]) -> Hole:
    """The array with one axis more than it has, if its axes are counted and may be any."""
    more = hole.dims is None and hole.rank is None and root(hole.path) in names
    return replace(hole, rank=rank + more)
