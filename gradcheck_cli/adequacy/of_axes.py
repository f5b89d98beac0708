"""Small changes of reductions: another axis, a mean instead of a sum, no sum at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.draft import Draft, Place, Plan, Steps
from gradcheck_cli.adequacy.edited import Editor, made
from gradcheck_cli.adequacy.plain_steps import KEPT_AXES, SCALED, SPREAD
from gradcheck_cli.adequacy.scene import Scene
from gradcheck_cli.reals.facts import FACTS, Law
from gradcheck_cli.reals.program import Slot, Step

_WORDS = {
    "reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "product",
    "cumsum": "cumsum", "cumprod": "cumprod", "cummax": "cummax", "cummin": "cummin",
    "cumlogsumexp": "cumlogsumexp",
}  # fmt: skip
_OTHER_REDUCTION = {
    "reduce_max": "reduce_min", "reduce_min": "reduce_max", "reduce_prod": "reduce_sum",
}  # fmt: skip


def reductions(place: Place) -> Iterator[Draft]:
    """Another axis, a mean instead of a sum, nothing instead of a sum."""
    step = place.step
    shape, axes = step.in_avals[0].shape, step.params["axes"]
    verb = _WORDS.get(step.name, step.name)
    count = int(np.prod([shape[a] for a in axes], dtype=int))
    if not count:
        return  # of nothing, a sum is what a mean is
    over = " ".join(str(a - len(shape)) for a in axes)
    other = "mean" if verb == "sum" else _other(step)
    mean = f"{verb} over axis {over} → {other}"
    if count == 1:
        yield place.draft(Kind.REDUCTION, f"{verb} of a single number → {other}")
    elif step.name == "reduce_sum":
        yield place.draft(Kind.REDUCTION, mean, lambda editor: _scaled(place, editor, 1 / count))
    elif step.name in _OTHER_REDUCTION:
        yield place.instead(
            Kind.REDUCTION, mean, _OTHER_REDUCTION[step.name], step.ins, **step.params
        )
    single = next((a for a in axes if count > 1 and shape[a] == 1), None)
    if single is not None:
        yield place.draft(
            Kind.REDUCTION, f"{verb} over axis {single - len(shape)}, which is one long"
        )
    yield from moved_axes(place, verb)


def _other(step: Step) -> str:
    return _WORDS.get(_OTHER_REDUCTION.get(step.name, ""), "none")


def _scaled(place: Place, editor: Editor, factor: float) -> Steps:
    step, inner = place.step, editor.slot()
    first = replace(step, outs=(inner,))
    return {place.index: (first, made(step, SCALED, {"factor": factor}, (inner,)))}


def moved_axes(place: Place, verb: str) -> Iterator[Draft]:
    """The reduction over another axis: readers that keep the axis as one of length 1 follow it."""
    step, scene = place.step, place.scene
    shape, axes = step.in_avals[0].shape, tuple(step.params["axes"])
    rank = len(shape)
    if len(axes) == rank:
        if rank == 1:
            yield place.draft(Kind.AXIS, f"{verb} over axis -1 → over all axes")
        return
    if not axes:
        return
    last = axes[-1]
    keepers = _keepers(place, axes)
    at_once = all(place.step.outs == scene.program.steps[i].ins for i in keepers)
    if keepers and at_once and step.name == "reduce_sum":
        words = f"{verb} over axis {last - rank} dropped"
        yield place.draft(Kind.REDUCTION, words, lambda editor: _dropped(place, keepers))
    for other in reversed([a for a in range(rank) if a not in axes]):
        words = f"{verb} over axis {last - rank} → axis {other - rank}"
        if shape[last] == shape[other] == 1:
            yield place.draft(Kind.AXIS, words)
            continue
        new = tuple(sorted((*axes[:-1], other)))
        yield place.draft(Kind.AXIS, words, partial(_moved, place, axes=new, keepers=keepers))


def _keepers(place: Place, axes: Sequence[int]) -> list[int]:
    """Steps that give the result its axes back; none if something else reads it too.

    What is done to the result before, number by number, does not mind its shape.
    """
    step, scene = place.step, place.scene
    followed, keepers = [step.outs[0]], []
    for slot in followed:
        if slot in scene.program.outputs:
            return []
        for index in scene.readers.get(slot, []):
            reader = scene.program.steps[index]
            if _keeps(reader, step.in_avals[0].shape, axes):
                keepers.append(index)
            elif _numberwise(scene, reader, followed):
                followed += [s for s in reader.outs if s not in followed]
            else:
                return []
    return keepers


def _keeps(reader: Step, shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Does it put an axis of length one (or the whole shape) where a reduction took one away?"""
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    left = tuple(a for a in range(len(shape)) if a not in axes)
    out = reader.out_avals[0].shape
    if reader.name == "broadcast_in_dim":
        return tuple(reader.params["broadcast_dimensions"]) == left and out in (kept, shape)
    return reader.name in ("reshape", "expand_dims") and out == kept


def _numberwise(scene: Scene, reader: Step, followed: Sequence[Slot]) -> bool:
    row = FACTS.get(reader.name)
    return (
        row is not None
        and row.pointwise
        and not reader.subs
        and all(s in followed or scene.constant(s) is not None for s in reader.ins)
    )


def _moved(place: Place, editor: Editor, axes: tuple[int, ...], keepers: Sequence[int]) -> Steps:
    step, scene = place.step, place.scene
    steps: dict[int, Sequence[Step]] = {
        place.index: (replace(step, params={**step.params, "axes": axes}),)
    }
    for index in keepers:
        reader = scene.program.steps[index]
        kept = made(reader, KEPT_AXES, {"axes": axes}, reader.ins)
        if reader.out_avals[0].shape == step.in_avals[0].shape:  # over the whole shape at once
            between = editor.slot()
            kept = replace(kept, outs=(between,))
            steps[index] = (kept, made(reader, SPREAD, {}, (between,)))
        else:
            steps[index] = (kept,)
    return steps


def _dropped(place: Place, keepers: Sequence[int]) -> Steps:
    """What is not summed stands where the sum stood; the step itself is left without a reader."""
    steps = place.scene.program.steps
    return {i: (made(steps[i], SPREAD, {}, place.step.ins),) for i in keepers}


def running(place: Place) -> Iterator[Draft]:
    step = place.step
    verb, rank = _WORDS.get(step.name, step.name), len(step.in_avals[0].shape)
    axis, shape = step.params["axis"], step.in_avals[0].shape
    if shape[axis] == 1:
        yield place.draft(Kind.DIRECTION, f"{verb} from the other end")
        return
    back = not step.params["reverse"]
    yield place.with_params(Kind.DIRECTION, f"{verb} from the other end", reverse=back)
    for other in range(rank):
        if other != axis:
            words = f"{verb} over axis {axis - rank} → axis {other - rank}"
            yield place.with_params(Kind.AXIS, words, axis=other)


def of_call(place: Place, call: Sequence[int]) -> Iterator[Draft]:
    """All reductions of one library call over another axis, together: softmax over the rows."""
    scene = place.scene
    mine = [
        Place(scene, i)
        for i in call
        if (row := FACTS.get(scene.program.steps[i].name)) is not None
        and row.law is Law.REDUCTION
        and not scene.shared.intersection(scene.program.steps[i].outs)
    ]
    name = f"`{scene.expression(call[0])}`"
    each = [{d.words: d for d in moved_axes(p, name) if d.kind is Kind.AXIS} for p in mine]
    for words in each[0] if each else ():
        if all(words in one for one in each):
            plans = [plan for one in each if (plan := one[words].plan) is not None]
            yield place.draft(Kind.AXIS, words, _together(plans) if plans else None)


def _together(plans: Sequence[Plan]) -> Plan:
    return lambda editor: {i: new for plan in plans for i, new in plan(editor).items()}
