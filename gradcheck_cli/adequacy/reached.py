"""What no judged row reaches: a branch that never ran, an argument that changes nothing."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.adequacy.change import Change, Key, Kind, Part, Place, Showing
from gradcheck_cli.adequacy.replay import NotReplayed, replay
from gradcheck_cli.adequacy.scene import Scene
from gradcheck_cli.contract.limits import CHANGE_ROUNDING
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.program import Slot
from gradcheck_cli.reals.three_valued import NO, YES

Array = np.ndarray[Any, Any]
Seen = tuple[Change, Showing]

_MOST_ROWS = 256
# A question whose answer is nearly always no: it guards a division, a logarithm, an empty row.
_GUARDS = ("eq", "ne", "is_finite")
_IGNORES = re.compile(r"ignor|-100\b", re.IGNORECASE)
_ORDERS = ("gt", "ge", "lt", "le")


def moved_arguments(m: Measurements) -> Iterator[Seen]:
    """Whether each argument changes anything: a single number that does not might do so in an array."""
    truth, regular = m.reference.middle(GRADIENTS), m.reference.states(GRADIENTS) == REGULAR
    sizes = np.where(regular, np.abs(truth), 0.0)
    largest = sizes.max(axis=1, initial=0.0, keepdims=True)
    start = 0
    for i, leaf in enumerate(m.subject.leaves):
        part = sizes[:, start : start + leaf.size]
        start += leaf.size
        moves = bool((part > CHANGE_ROUNDING.value * largest).any())
        if moves or leaf.size == 1:
            key = Key(Part.PRIMAL, "", 0, 0, leaf.path, i, Kind.ARGUMENT, "moved")
            change = Change(key, f"`{leaf.path}` moved changes nothing", None, None, (i,))
            yield change, Showing.SHOWN if moves else Showing.DEGENERATE


def ways_taken(m: Measurements, scene: Scene) -> Iterator[Seen]:
    """Both ways of each choice that the user wrote, and whether a judged row went there.

    What goes one way here may go the other one at another signature.
    """
    rows = m.base_rows[:_MOST_ROWS]
    args = m.points if scene.part is Part.PRIMAL else [*m.points, *m.cotangents]
    for change, taken in _ways(scene, [a[rows] for a in args]):
        yield change, Showing.TAKEN if taken else Showing.UNSEEN


def one_sided(scene: Scene, args: Sequence[Array]) -> Iterator[Change]:
    """The ways of choices that none of these rows goes."""
    yield from (change for change, taken in _ways(scene, args) if not taken)


def _ways(scene: Scene, args: Sequence[Array]) -> Iterator[tuple[Change, bool]]:
    """The ways of each choice, and whether one of these rows goes there; guards are no choices.

    A helper that is called twice makes two choices at one place.
    """
    met: Counter[Place] = Counter()
    try:
        run = replay(scene.program, args)
    except NotReplayed:
        return
    for index, step in enumerate(scene.program.steps):
        if step.name not in ("select_n", "cond") or scene.library_call(index):
            continue
        if scene.shared.intersection(step.outs) or step.out_avals[0].kind != "f":
            continue
        question = _question(scene, step.ins[0]) if step.in_avals[0].kind == "b" else None
        if question is not None and not _is_asked_by_a_library(scene, index):
            answers, place = run.slots[step.ins[0]], _place(scene, index)
            for side, answer in ((True, YES), (False, NO)):
                way = _way(scene, index, question, side, met[place])
                yield way, bool(np.any(answers == answer))
            met[place] += 1


def _is_asked_by_a_library(scene: Scene, index: int) -> bool:
    """Is a table compared by the very expression that chooses? A loss of a library does, and its user may never think of it: the label -100.

    Not where the file speaks of what is ignored.
    """
    asked = scene.program.steps[index].ins[0]
    here = scene.spot(index)
    compared = scene.makers.get(asked)
    return (
        here is not None
        and compared is not None
        and scene.table(asked) is not None
        and scene.program.steps[compared].name in _GUARDS
        and scene.spot(compared) == here
        and not any(map(_IGNORES.search, linecache.getlines(here.path)))
    )


def _question(scene: Scene, slot: Slot) -> str | None:
    """The mask or the comparison that a choice rests on, in words; None for a guard."""
    mask = scene.table(slot)
    if mask is not None:
        return mask
    step = None if slot not in scene.makers else scene.program.steps[scene.makers[slot]]
    while step is not None and not (step.name in _ORDERS and step.in_avals[0].kind == "f"):
        if step.name in _GUARDS or not step.ins or step.ins[0] not in scene.makers:
            return None
        step = scene.program.steps[scene.makers[step.ins[0]]]
    return None if step is None else scene.name(step.outs[0])


def _place(scene: Scene, index: int) -> Place:
    spot = scene.spot(index)
    where = ("", 0, 0) if spot is None else (spot.path, spot.line, spot.column)
    return (scene.part, *where, scene.program.steps[index].name)


def _way(scene: Scene, index: int, question: str, side: bool, number: int) -> Change:
    """One way of the choice of this number at its place, in words for where nothing goes it."""
    never = f"never {'true' if side else 'false'}"
    key = Key(*_place(scene, index), number, Kind.BRANCH, never)
    table = scene.table(scene.program.steps[index].ins[0])
    return Change(key, f"`{question}` is {never}", scene.spot(index), None, table=table)
