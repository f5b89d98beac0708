"""Small changes of where elements come from: branches, slices, indices, orders, transpositions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.draft import Draft, Place, Steps
from gradcheck_cli.adequacy.edited import Editor, made
from gradcheck_cli.adequacy.plain_steps import ROLLED, TURNED
from gradcheck_cli.reals.program import Step

_OTHER_WRITE = {"scatter-add": "scatter", "scatter_add": "scatter"}


def selections(place: Place) -> Iterator[Draft]:
    which, *cases = place.step.ins
    if len(cases) == 2:
        words = f"`{place.name(1)}` and `{place.name(2)}` exchanged"
        yield place.with_ins(Kind.BRANCH, words, (which, cases[1], cases[0]))


def slices(place: Place) -> Iterator[Draft]:
    p, shape = place.step.params, place.step.in_avals[0].shape
    for axis, (start, stop, size) in enumerate(
        zip(p["start_indices"], p["limit_indices"], shape, strict=True)
    ):
        by = 1 if stop < size else -1 if start > 0 else 0
        if by:
            moved = {
                key: tuple(n + by * (d == axis) for d, n in enumerate(p[key]))
                for key in ("start_indices", "limit_indices")
            }
            words = f"slice `{start}:{stop}` of axis {axis - len(shape)} shifted by {by}"
            yield place.with_params(Kind.INDEX, words, **moved)


def gathers(place: Place) -> Iterator[Draft]:
    step = place.step
    if step.name == "gather":
        axis = (step.params["dimension_numbers"].start_index_map or (0,))[0]
    else:
        sizes = zip(step.params["slice_sizes"], step.in_avals[0].shape, strict=True)
        axis = next((a for a, (n, m) in enumerate(sizes) if n < m), 0)
    if not step.in_avals[0].shape or step.in_avals[0].shape[axis] == 1:
        yield place.draft(Kind.INDEX, f"index into `{place.name(0)}` shifted")
        return

    def plan(editor: Editor) -> Steps:
        rolled = editor.slot()
        first = made(step, ROLLED, {"axis": axis}, step.ins[:1], rolled)
        return {place.index: (first, replace(step, ins=(rolled, *step.ins[1:])))}

    words = f"index into `{place.name(0)}` shifted by one"
    yield replace(place.draft(Kind.INDEX, words, plan), table=place.scene.table(step.ins[1]))


def scatters(place: Place) -> Iterator[Draft]:
    name = _OTHER_WRITE[place.step.name]
    new = replace(place.step, name=name)
    table = place.scene.table(place.step.ins[1])
    where = "places" if table is None else f"places of `{table}`"
    words = f"added where {where} repeat → written once"
    draft = place.draft(Kind.INDEX, words, lambda editor: {place.index: (new,)})
    yield replace(draft, table=table)


def transposes(place: Place) -> Iterator[Draft]:
    step = place.step
    if step.in_avals[0].shape == step.out_avals[0].shape and _tells(step):
        yield place.operand(Kind.AXIS, f"transpose of `{place.name(0)}` dropped", 0)


def _tells(step: Step) -> bool:
    """Is a moved axis longer than one?"""
    moved = [d for i, d in enumerate(step.params["permutation"]) if d != i]
    return any(step.in_avals[0].shape[d] > 1 for d in moved)


def reversals(place: Place) -> Iterator[Draft]:
    yield place.operand(Kind.DIRECTION, f"reversal of `{place.name(0)}` dropped", 0)


def sorts(place: Place) -> Iterator[Draft]:
    """Every operand in falling order."""
    step = place.step
    axis = step.params["dimension"]
    if step.in_avals[0].shape[axis] == 1:
        return

    def plan(editor: Editor) -> Steps:
        inner = tuple(editor.slot() for _ in step.outs)
        turned = [
            replace(
                step, name="rev", params={"dimensions": (axis,)}, ins=(a,), outs=(b,),
                in_avals=(aval,), out_avals=(aval,),
            )
            for a, b, aval in zip(inner, step.outs, step.out_avals, strict=True)
        ]  # fmt: skip
        return {place.index: (replace(step, outs=inner), *turned)}

    yield place.draft(Kind.DIRECTION, f"`{place.name(0)}` sorted the other way", plan)


def convolutions(place: Place) -> Iterator[Draft]:
    """The kernel back to front."""
    step = place.step
    space = tuple(step.params["dimension_numbers"].rhs_spec[2:])
    if all(step.in_avals[1].shape[d] == 1 for d in space):
        yield place.draft(Kind.DIRECTION, f"the kernel `{place.name(1)}` back to front")
        return

    def plan(editor: Editor) -> Steps:
        kernel = editor.slot()
        back = made(step, "rev", {"dimensions": space}, step.ins[1:], kernel)
        return {place.index: (back, replace(step, ins=(step.ins[0], kernel)))}

    yield place.draft(Kind.DIRECTION, f"the kernel `{place.name(1)}` back to front", plan)


def solves(place: Place) -> Iterator[Draft]:
    """The triangle transposed."""
    if place.step.in_avals[0].shape[-1] > 1:
        other = not place.step.params["transpose_a"]
        words = f"`{place.name(0)}` transposed"
        yield place.with_params(Kind.AXIS, words, transpose_a=other)


def concatenations(place: Place) -> Iterator[Draft]:
    step = place.step
    if len(step.ins) == 2 and step.in_avals[0] == step.in_avals[1]:
        words = f"`{place.name(0)}` and `{place.name(1)}` exchanged"
        yield place.with_ins(Kind.ORDER, words, tuple(reversed(step.ins)))


def broadcasts(place: Place) -> Iterator[Draft]:
    step = place.step
    dims, shape = step.params["broadcast_dimensions"], step.params["shape"]
    if len(dims) == 1 and step.in_avals[0].shape[0] > 1:
        for other, size in enumerate(shape):
            if other != dims[0] and size == shape[dims[0]]:
                words = f"`{place.name(0)}` along axis {dims[0] - len(shape)} → axis {other - len(shape)}"
                yield place.with_params(Kind.AXIS, words, broadcast_dimensions=(other,))


def matrix_products(place: Place) -> Iterator[Draft]:
    step = place.step
    a, b = step.ins
    if a != b and step.in_avals[0] == step.in_avals[1] and _is_square(step.in_avals[0].shape):
        words = f"`{place.name(0)}` and `{place.name(1)}` exchanged"
        yield place.with_ins(Kind.ORDER, words, (b, a))
    for number, aval in enumerate(step.in_avals):
        if _is_square(aval.shape):
            words = f"`{place.name(number)}` transposed"
            yield place.draft(Kind.AXIS, words, partial(_turned, place, number=number))


def _is_square(shape: Sequence[int]) -> bool:
    return len(shape) >= 2 and shape[-1] == shape[-2] > 1


def _turned(place: Place, editor: Editor, number: int) -> Steps:
    step, turned = place.step, editor.slot()
    first = made(step, TURNED, {}, (step.ins[number],), turned)
    ins = tuple(turned if i == number else s for i, s in enumerate(step.ins))
    return {place.index: (first, replace(step, ins=ins))}
