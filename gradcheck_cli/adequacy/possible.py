"""What the shapes of a subject allow to be changed, before anything is measured.

A signature is the richer, the less it leaves open: where a sum runs over one number, or over the only
axis, other shapes may show more. This ranks signatures in milliseconds, from their traces alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.adequacy.change import Change, Kind, Place
from gradcheck_cli.adequacy.changes import primal_scene, rule_scene
from gradcheck_cli.adequacy.drafts import drafts
from gradcheck_cli.adequacy.forward import backward
from gradcheck_cli.adequacy.reached import one_sided
from gradcheck_cli.adequacy.replay import NotReplayed, replay
from gradcheck_cli.adequacy.richness import Richness
from gradcheck_cli.adequacy.scene import Scene
from gradcheck_cli.contract.limits import CHANGE_ROUNDING, CHANGE_SEED
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.protocol import Traced

Array = np.ndarray[Any, Any]

_ROWS = 8


def richness(subject: Traced) -> Richness:
    """The changes of function and rule at the subject's shapes."""
    possible: set[tuple[Place, Kind]] = set()
    degenerate: set[tuple[Place, Kind]] = set()
    for scene in _scenes(subject):
        for draft in drafts(scene):
            if draft.kind is not Kind.COMPARISON:
                spot = scene.spot(draft.index)
                where = ("", 0, 0) if spot is None else (spot.path, spot.line, spot.column)
                place = (scene.part, *where, scene.program.steps[draft.index].name)
                allowed = draft.plan is not None or draft.inner is not None
                (possible if allowed else degenerate).add((place, draft.kind))
    return Richness(frozenset(possible), frozenset(degenerate))


def possible(degenerate: Sequence[Change], subject: Traced) -> list[Change]:
    """The changes of these that would show something at the shapes of the subject."""
    there = richness(subject)
    allowed = there.possible - there.degenerate
    moving = set(_moving_arguments(subject))
    return [
        change
        for change in degenerate
        if (change.key.place, change.kind) in allowed
        or (change.kind is Kind.ARGUMENT and change.key.name in moving)
    ]


def reached(unseen: Sequence[Change], subject: Traced) -> list[Change]:
    """The choices of these, which always went one way, that go both ways with the subject's tables."""
    left = {
        change.key
        for scene in _scenes(subject)
        for change in one_sided(scene, _rows(scene.program))
    }
    return [change for change in unseen if change.key not in left]


def _rows(program: Program) -> list[Array]:
    """Generic numbers for all inputs of a program."""
    rng = np.random.default_rng(CHANGE_SEED.value)
    return [rng.uniform(0.25, 2.0, (_ROWS, *aval.shape)) for aval in program.in_avals]


def _scenes(subject: Traced) -> Iterator[Scene]:
    for scene in (primal_scene(subject), rule_scene(subject)):
        if scene is not None:
            yield scene


def _moving_arguments(subject: Traced) -> Iterator[str]:
    """Arguments with a gradient at generic points."""
    pullback = subject.traces().primal
    if pullback is None:
        return
    program = backward(pullback, len(subject.outputs))
    try:
        run = replay(program, _rows(program))
    except NotReplayed:
        return
    sizes = [float(np.abs(np.nan_to_num(g)).max(initial=0.0)) for g in run.outputs]
    least = CHANGE_ROUNDING.value * max(sizes, default=0.0)
    yield from (leaf.path for leaf, size in zip(subject.leaves, sizes, strict=True) if size > least)
