"""The changes that are tried of one program: some of each kind, the same ones at every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.adequacy.change import Change, Key, Kind, Part
from gradcheck_cli.adequacy.draft import Draft
from gradcheck_cli.adequacy.drafts import drafts
from gradcheck_cli.adequacy.edited import Editor, grafted
from gradcheck_cli.adequacy.forward import backward, forward, shared
from gradcheck_cli.adequacy.scene import Scene, named, reach
from gradcheck_cli.inputs.signature import tables
from gradcheck_cli.reals.program import Program, Slot
from gradcheck_cli.subject.protocol import Traced

_OF_SHAPES = 3  # changes that shapes tell, for each one of another kind


def changes_of_primal(scene: Scene, most: int) -> list[Change]:
    """Changes of the function, in a program of its values alone."""
    return _chosen(scene, list(drafts(scene)), most)


def changes_of_rule(scene: Scene, leaves: Sequence[str], values: int, most: int) -> list[Change]:
    """Changes of the rule, in a program of its gradients alone; what the values rest on stands."""
    whole = list(_of_cotangents(scene, leaves, values))
    return [*whole, *_chosen(scene, list(drafts(scene)), most - len(whole))]


def change_of_static(pullback: Program, moved: Program, words: str, leaves: int, values: int) -> Change | None:  # fmt: skip
    """The function with another static argument, as one change of it; None if its results differ in shape."""
    program, other = (forward(p, leaves, values) for p in (pullback, moved))
    if [a.shape for a in program.out_avals] != [a.shape for a in other.out_avals]:
        return None
    key = Key(Part.PRIMAL, "", 0, 0, "static", 0, Kind.ARGUMENT, words)
    return Change(key, words, None, grafted(program, other))


def primal_scene(subject: Traced) -> Scene | None:
    """The function's values alone, with the names of its arguments; None without a program."""
    pullback, leaves = subject.traces().primal, [leaf.path for leaf in subject.leaves]
    if pullback is None:
        return None
    program = forward(pullback, len(leaves), len(subject.outputs))
    names = dict(zip(program.inputs, leaves, strict=True))
    return Scene(Part.PRIMAL, program, names, tables=_tables(program, subject))


def rule_scene(subject: Traced) -> Scene | None:
    """The rule's gradients alone, but for what the values rest on; None without a program."""
    pullback, leaves = subject.traces().rule, [leaf.path for leaf in subject.leaves]
    if pullback is None:
        return None
    program, values = backward(pullback, len(subject.outputs)), len(subject.outputs)
    names, held = named(program, leaves), shared(pullback, values)
    return Scene(Part.RULE, program, names, held, _tables(program, subject))


def _tables(program: Program, subject: Traced) -> dict[Slot, str]:
    """Constants of the program that are arguments of integers or flags, by name."""
    arrays = list(tables(subject.signature))
    return {
        slot: name
        for slot, value in program.constants.items()
        for name, array in arrays
        if getattr(value, "shape", None) == array.shape
        and getattr(value.dtype, "kind", "") in "iub"
        and np.array_equal(value, array)
    }


def _chosen(scene: Scene, every: Sequence[Draft], most: int) -> list[Change]:
    """As many of each kind as there is room for; those that cost nothing are all kept."""
    free = [d for d in every if d.plan is None and d.inner is None]
    by_kind = {kind: [d for d in every if d.kind is kind and d not in free] for kind in Kind}
    taken: list[Draft] = []
    while len(taken) < most and any(by_kind.values()):
        for kind, waiting in by_kind.items():
            several = min(_OF_SHAPES if kind.shapes_tell else 1, most - len(taken))
            taken += waiting[:several]
            del waiting[:several]
    order = {id(d): i for i, d in enumerate(every)}
    names = _Numbers(scene)
    return [names.change(d) for d in sorted((*free, *taken), key=lambda d: order[id(d)])]


class _Numbers:
    """Changes with their keys: steps of one name on one place are counted."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.reach = reach(scene.program, len(scene.program.inputs))
        self.counts: dict[tuple[str, int, int, str], list[int]] = {}

    def change(self, draft: Draft) -> Change:
        step = self.scene.program.steps[draft.index]
        place = self.scene.spot(draft.index)
        where = ("", 0, 0) if place is None else (place.path, place.line, place.column)
        same = self.counts.setdefault((*where, step.name), [])
        if draft.index not in same:
            same.append(draft.index)
        number = same.index(draft.index)
        mark = draft.words if draft.mark is None else draft.mark
        key = Key(self.scene.part, *where, step.name, number, draft.kind, mark)
        leaves = frozenset[int]().union(*(self.reach.get(s, frozenset()) for s in step.ins))
        program = draft.program(self.scene.program)
        return Change(key, draft.words, place, program, tuple(sorted(leaves)), draft.table)


def _of_cotangents(scene: Scene, leaves: Sequence[str], values: int) -> Iterator[Change]:
    """A cotangent left out, two gradients exchanged, the sign of a gradient turned."""
    program = scene.program
    cotangents = list(zip(program.inputs, program.in_avals, strict=True))[len(leaves) :]
    for k, (slot, aval) in enumerate(cotangents):
        editor = Editor(program)
        stands = editor.constant(np.full(aval.shape, 0.0 if len(cotangents) > 1 else 1.0))
        which = f"cotangent of output {k}" if len(cotangents) > 1 else "cotangent"
        yield _whole(scene, Kind.COTANGENT, f"the {which} ignored", _reading(editor, slot, stands))
    for i, left in enumerate(program.outputs):
        for j in range(i):
            if program.out_avals[i] == program.out_avals[j] and left != program.outputs[j]:
                outputs = list(program.outputs)
                outputs[i], outputs[j] = outputs[j], outputs[i]
                words = f"the gradients of `{leaves[j]}` and `{leaves[i]}` exchanged"
                yield _whole(scene, Kind.OPERAND, words, replace(program, outputs=tuple(outputs)))


def _reading(editor: Editor, slot: Slot, stand_in: Slot) -> Program:
    """The program with another slot in the place of one, wherever it is read."""
    steps = {
        i: (replace(step, ins=tuple(stand_in if s == slot else s for s in step.ins)),)
        for i, step in enumerate(editor.program.steps)
        if slot in step.ins
    }
    outputs = [stand_in if s == slot else s for s in editor.program.outputs]
    return editor.done(steps, outputs)


def _whole(scene: Scene, kind: Kind, words: str, program: Program) -> Change:
    return Change(Key(scene.part, "", 0, 0, "rule", 0, kind, words), words, None, program)
