"""A call with more axes: of what a source gives two shapes, or where the text counts them: `range(x.ndim - 1)` is more than one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from gradcheck_cli.infer.explore import Explorer
from gradcheck_cli.infer.template import Hole, template
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Hints, Signature, root
from gradcheck_cli.subject.protocol import CustomGradient, Subject

_AXES = re.compile(r"\[([^\]]*)\]")


def with_more_axes(
    gradient: CustomGradient, signature: Signature, dtype: str, hints: Hints
) -> Subject | None:
    """The call with the other shape that a source gives to arrays; else with one axis more of each whose axes are counted.

    None if function and rule do not take that.
    """
    opened = template(signature, hints.clues, list(hints.specs))
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    if any(hole.path not in ranks for hole in opened.holes):
        return None
    holes = tuple(_otherwise(hole, hints.clues.get(hole.path, ())) for hole in opened.holes)
    if holes == opened.holes:
        holes = tuple(_counted(hole, ranks[hole.path], hints.counts_axes) for hole in opened.holes)
        if all(hole.rank == ranks[hole.path] for hole in holes):
            return None
    return Explorer(gradient, dtype, replace(opened, holes=holes)).explored().subject


def _otherwise(hole: Hole, clues: Sequence[Clue]) -> Hole:
    """The array in the other shape that a source gives it."""
    spec = next((_AXES.search(c.otherwise) for c in clues if c.otherwise), None)
    if spec is None:
        return hole
    dims = tuple(spec[1].split())
    return replace(hole, dims=dims, least_rank=len(dims), first=(), last=())


def _counted(hole: Hole, rank: int, names: Collection[str]) -> Hole:
    """The array with one axis more than it has, if its axes are counted and may be any."""
    more = hole.dims is None and hole.rank is None and root(hole.path) in names
    return replace(hole, rank=rank + more)
