"""Small changes of arithmetic: a term or a factor dropped, operands exchanged, a sign turned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.draft import Draft, Place, Steps
from gradcheck_cli.adequacy.edited import Editor


def sums(place: Place) -> Iterator[Draft]:
    yield from _terms(place)
    if place.number(1) is None:
        words = f"`+ {place.name(1)}` → `- {place.name(1)}`"
        yield place.instead(Kind.SIGN, words, "sub", place.step.ins)
    yield from constants(place)


def differences(place: Place) -> Iterator[Draft]:
    a, b = place.step.ins
    left, right = place.name(0), place.name(1)
    yield from _terms(place)
    yield place.with_ins(Kind.ORDER, f"`{left} - {right}` exchanged", (b, a))
    if place.number(1) is None:
        yield place.instead(Kind.SIGN, f"`- {right}` → `+ {right}`", "add", (a, b))
    yield from constants(place)


def _terms(place: Place) -> Iterator[Draft]:
    """One of two terms dropped; what is left of 1 - x is no small change."""
    for left, dropped in ((0, 1), (1, 0)):
        if place.number(left) is None and (dropped or place.step.name != "sub"):
            kind = Kind.TERM if place.number(dropped) is None else Kind.CONSTANT
            yield place.operand(kind, f"the term `{place.name(dropped)}` dropped", left)


def products(place: Place) -> Iterator[Draft]:
    a, b = place.step.ins
    for left, dropped in ((0, 1), (1, 0))[: 1 if a == b else 2]:
        if place.number(left) is None:
            yield place.operand(Kind.FACTOR, f"the factor `{place.name(dropped)}` dropped", left)


def quotients(place: Place) -> Iterator[Draft]:
    a, b = place.step.ins
    if place.number(0) is None:
        yield place.operand(Kind.FACTOR, f"the divisor `{place.name(1)}` dropped", 0)
    if place.number(1) is None:
        yield place.with_ins(Kind.ORDER, f"`{place.name(0)} / {place.name(1)}` exchanged", (b, a))


def powers(place: Place) -> Iterator[Draft]:
    a, b = place.step.ins
    yield place.operand(Kind.FACTOR, f"the power `{place.name(1)}` dropped", 0)
    yield place.with_ins(Kind.ORDER, f"`{place.name(0)} ** {place.name(1)}` exchanged", (b, a))
    yield from constants(place)


def integer_powers(place: Place) -> Iterator[Draft]:
    y = place.step.params["y"]
    yield place.with_params(Kind.FACTOR, f"the power {y} → {y + 1}", y=y + 1)
    yield place.operand(Kind.FACTOR, f"the power {y} dropped", 0)


def squares(place: Place) -> Iterator[Draft]:
    yield place.operand(Kind.FACTOR, "the square dropped", 0)


def signs(place: Place) -> Iterator[Draft]:
    what = "minus" if place.step.name == "neg" else "abs"
    yield place.operand(Kind.SIGN, f"{what} of `{place.name(0)}` dropped", 0)


def extremes(place: Place) -> Iterator[Draft]:
    other = "min" if place.step.name == "max" else "max"
    words = f"{place.step.name} of `{place.name(0)}` and `{place.name(1)}` → {other}"
    yield place.instead(Kind.BRANCH, words, other, place.step.ins)
    yield from constants(place)


def constants(place: Place) -> Iterator[Draft]:
    """A number that the user wrote, moved by half."""
    for number, slot in enumerate(place.step.ins):
        value = place.scene.constant(slot)
        if value is None or not np.isfinite(value):
            continue
        other = 1.5 * value if value else 0.5

        def plan(editor: Editor, number: int = number, other: float = other) -> Steps:
            ins = [editor.constant(other) if i == number else s for i, s in enumerate(place.step.ins)]  # fmt: skip
            return {place.index: (replace(place.step, ins=tuple(ins)),)}

        yield place.draft(Kind.CONSTANT, f"`{value:g}` → `{other:g}`", plan, f"moved {number}")
