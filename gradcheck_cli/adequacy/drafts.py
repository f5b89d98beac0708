"""The table of small changes: by what a step does, which changes of it cgcheck knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradcheck_cli.adequacy import of_numbers, of_places
from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.draft import Draft, Place
from gradcheck_cli.adequacy.of_axes import of_call, reductions, running
from gradcheck_cli.adequacy.scene import Scene
from gradcheck_cli.reals.facts import FACTS, Law
from gradcheck_cli.reals.program import Slot

_MOST_OPERANDS = 2  # other values that are tried in the place of one
_OTHER_COMPARISON = {"gt": "ge", "ge": "gt", "lt": "le", "le": "lt"}
_SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def drafts(scene: Scene) -> Iterator[Draft]:
    """Every small change of the scene's steps, in their order."""
    moved: set[int] = set()
    for index, step in enumerate(scene.program.steps):
        if scene.shared.intersection(step.outs):
            continue
        place = Place(scene, index)
        call = scene.library_call(index)
        if call:
            if call[0] not in moved:
                moved.add(call[0])
                yield from of_call(place, call)
            continue
        yield from of_step(place)
        yield from _inside(place)


def of_step(place: Place) -> Iterator[Draft]:
    """The changes of one step."""
    step = place.step
    if step.name in _OTHER_COMPARISON and step.in_avals[0].kind == "f":
        old, new = (_SIGNS[n] for n in (step.name, _OTHER_COMPARISON[step.name]))
        yield place.draft(Kind.COMPARISON, f"`{place.name(0)} {old} {place.name(1)}` → {new}")
    if step.name == "sort":
        yield from of_places.sorts(place)
    if len(step.outs) != 1 or step.out_avals[0].kind != "f":
        return
    row = FACTS.get(step.name)
    if step.name in _BY_NAME:
        yield from _BY_NAME[step.name](place)
    elif row is not None and row.law is Law.REDUCTION:
        yield from reductions(place)
    elif row is not None and row.law is Law.RUNNING:
        yield from running(place)
    yield from _other_operands(place)


def _inside(place: Place) -> Iterator[Draft]:
    """Changes of a loop's body or of a branch; not of what says how often a loop goes on."""
    step = place.step
    first = 1 if step.name == "while" else 0
    for number, sub in enumerate(step.subs):
        if number >= first:
            names = dict.fromkeys(sub.inputs, "the carry")
            scene = Scene(place.scene.part, sub, names)
            for draft in drafts(scene):
                held = (number, draft, sub)
                yield Draft(place.index, draft.kind, draft.words, draft.plan, draft.mark, held)


def _other_operands(place: Place) -> Iterator[Draft]:
    """Other values of the same shape in the place of an operand."""
    step, scene = place.step, place.scene
    row = FACTS.get(step.name)
    if row is None or row.law not in (Law.BINARY, Law.PRODUCT):
        return
    count = 0
    for number, (slot, aval) in enumerate(zip(step.ins, step.in_avals, strict=True)):
        if slot in scene.program.constants or aval.kind != "f":
            continue
        for other in _alike(place, slot):
            if count == _MOST_OPERANDS:
                return
            ins = [other if i == number else s for i, s in enumerate(step.ins)]
            if len(set(ins)) < len(set(step.ins)) and step.name in ("sub", "div"):
                continue  # x - x is none that anybody writes
            if scene.name(other) == place.name(number):
                continue
            words = f"`{scene.name(other)}` used for `{place.name(number)}`"
            yield place.with_ins(Kind.OPERAND, words, ins)
            count += 1
            break


def _alike(place: Place, slot: Slot) -> Iterator[Slot]:
    """Other values of this shape that are there before the step: arguments, then the latest results."""
    program = place.scene.program
    avals = dict(zip(program.inputs, program.in_avals, strict=True))
    before = program.steps[: place.index]
    avals.update({s: a for step in reversed(before) for s, a in zip(step.outs, step.out_avals, strict=True)})  # fmt: skip
    own = avals.get(slot)
    for other, aval in avals.items():
        if other != slot and aval == own and other not in place.step.ins:
            yield other


_BY_NAME: dict[str, Callable[[Place], Iterator[Draft]]] = {
    "add": of_numbers.sums,
    "add_any": of_numbers.sums,
    "sub": of_numbers.differences,
    "mul": of_numbers.products,
    "div": of_numbers.quotients,
    "pow": of_numbers.powers,
    "integer_pow": of_numbers.integer_powers,
    "square": of_numbers.squares,
    "neg": of_numbers.signs,
    "abs": of_numbers.signs,
    "max": of_numbers.extremes,
    "min": of_numbers.extremes,
    "select_n": of_places.selections,
    "slice": of_places.slices,
    "gather": of_places.gathers,
    "dynamic_slice": of_places.gathers,
    "scatter-add": of_places.scatters,
    "scatter_add": of_places.scatters,
    "transpose": of_places.transposes,
    "rev": of_places.reversals,
    "concatenate": of_places.concatenations,
    "broadcast_in_dim": of_places.broadcasts,
    "conv_general_dilated": of_places.convolutions,
    "dot_general": of_places.matrix_products,
    "triangular_solve": of_places.solves,
}
