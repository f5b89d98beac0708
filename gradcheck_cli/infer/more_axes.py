"""A call with more axes: of what a source gives two shapes, or leaves some open: `(B, ...)`; or where the text counts them: `range(x.ndim - 1)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gradcheck_cli.infer.explore import Explorer
from gradcheck_cli.infer.template import Hole, template
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Hints, Signature, root
from gradcheck_cli.subject.protocol import CustomGradient, Subject

_AXES = re.compile(r"\[([^\]]*)\]")
_MOST_RANK = 5


def with_more_axes(
    gradient: CustomGradient, signature: Signature, dtype: str, hints: Hints
) -> Subject | None:
    """The call with the other shape that a source gives to arrays; else with one axis more of each whose axes are open or counted.

    None if function and rule do not take that.
    """
    opened = template(signature, hints.clues, list(hints.specs))
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    if any(hole.path not in ranks for hole in opened.holes):
        return None
    standing = _standing_for_several(hints.clues)
    ways = (
        [_otherwise(hole, hints.clues.get(hole.path, ())) for hole in opened.holes],
        [_with_several(hole, standing) for hole in opened.holes],
        [_counted(hole, ranks[hole.path], hints.counts_axes) for hole in opened.holes],
    )
    holes = next((tuple(way) for way in ways if _differ(way, opened.holes, ranks)), None)
    if holes is None:
        return None
    return Explorer(gradient, dtype, replace(opened, holes=holes)).explored().subject


def _differ(holes: Sequence[Hole], others: Sequence[Hole], ranks: Mapping[str, int]) -> bool:
    """Has an array other axes than before?"""
    pairs = zip(holes, others, strict=True)
    return any(a.dims != b.dims or (a.rank or ranks[a.path]) != ranks[a.path] for a, b in pairs)


def _otherwise(hole: Hole, clues: Sequence[Clue]) -> Hole:
    """The array in the other shape that a source gives it."""
    spec = next((_AXES.search(c.otherwise) for c in clues if c.otherwise), None)
    if spec is None:
        return hole
    dims = tuple(spec[1].split())
    return replace(hole, dims=dims, least_rank=len(dims), first=(), last=())


def leaves_axes_open(clues: Mapping[str, Sequence[Clue]]) -> bool:
    """Does a source say of an array which axes it has first or last, and that there may be others?"""
    return bool(_standing_for_several(clues))


def _standing_for_several(clues: Mapping[str, Sequence[Clue]]) -> frozenset[str]:
    """The names that stand for `...` in what sources state: `f32[B lead]` for `(B, ...)`."""
    return frozenset(
        axes[len(clue.first)]
        for each in clues.values()
        for clue in each
        if (stated := _AXES.search(clue.spec)) is not None
        and (clue.first or clue.last)
        and len(axes := stated[1].split()) == len(clue.first) + len(clue.last) + 1
    )


def _with_several(hole: Hole, standing: Collection[str]) -> Hole:
    """The array with two axes for each of these names, which were one."""
    if hole.dims is None or len(hole.dims) >= _MOST_RANK:
        return hole
    pairs = ((name, f"{name}_") if name in standing else (name,) for name in hole.dims)
    return replace(hole, dims=tuple(name for pair in pairs for name in pair))


def _counted(hole: Hole, rank: int, names: Collection[str]) -> Hole:
    """The array with one axis more than it has, if its axes are counted and may be any."""
    more = not hole.settled and root(hole.path) in names
    return replace(hole, rank=rank + more)
