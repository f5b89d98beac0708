"""The numbers at a failure: what went in, what came out, what it should have been."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Number, Witness, WitnessInput
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.correct_bits import correct_bits
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, REGULAR, UNDECIDED
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import Shaped

Array = np.ndarray[Any, Any]

_MOST_ELEMENTS = 64
_MOST_ENTRIES = 12  # of a table, as a line has room for
_STATES = {POLE: "±inf (pole)", KINK: "kink", OUTSIDE: "undefined", UNDECIDED: "undecided"}


def witness_of(failure: Failure, m: Measurements) -> Witness | None:
    """Numbers at the failing row; None where the rule needs none, since it fails everywhere."""
    if failure.everywhere and not find(failure.rule).witness:
        return None
    row, k = failure.row, failure.component
    mode = failure.modes[0] if failure.modes else m.mode
    floats = m.floats[mode]
    number, index = component_name(m, failure.what, k)
    of_gradient = failure.what == GRADIENTS
    value_at = _value_component(m, k) if of_gradient else k
    value = float(columns(floats.rule_value, m.count)[row, value_at])
    custom = _number(floats.custom, m, row, k) if of_gradient else None
    auto = _number(floats.auto, m, row, k) if of_gradient else None
    judged = next(v for v in (custom, auto, value) if v is not None)
    truth = m.reference.middle(failure.what)[row, k]
    bits = correct_bits(np.array([judged]), np.array([truth]), m.fmt)
    return Witness(
        inputs=call_inputs(m.subject, [p[row] for p in m.points], m.recipes[row]),
        cotangent=_values(np.concatenate([c[row].reshape(-1) for c in m.cotangents]), m.fmt),
        argument=m.subject.leaves[number].path if of_gradient else None,
        index=list(index),
        value=as_number(value, m.fmt),
        value_real=_true(m, VALUES, row, value_at),
        custom=None if custom is None else as_number(custom, m.fmt),
        custom_real=None if custom is None else _formula(m, row, k),
        auto=None if auto is None else as_number(auto, m.fmt),
        truth=_true(m, GRADIENTS, row, k) if of_gradient else None,
        bits=round(float(bits[0]), 1),
        mode=mode,
    )


def call_inputs(
    subject: Shaped, point: Sequence[Any], recipe: str | None = None
) -> list[WitnessInput]:
    """What the function is called with, arguments that are not differentiated included."""
    fmt = format_of(subject.dtype)
    return [
        WitnessInput(
            path=leaf.path,
            dtype=subject.dtype,
            shape=list(leaf.shape),
            value=_values(p, fmt),
            recipe=None if leaf.size <= _MOST_ELEMENTS else recipe,
        )
        for leaf, p in zip(subject.leaves, point, strict=True)
    ] + [
        WitnessInput(path=name, dtype="fixed", shape=[], value=None, recipe=_held(value))
        for name, value in subject.signature.arguments
        if isinstance(value, Fixed)
    ]


def _held(fixed: Fixed) -> str:
    """A value that stays as it is, as text: of a small table its integers too, which may be what it hangs on."""
    value = fixed.value
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    is_small = kind in ("i", "u", "b") and value.ndim > 0 and value.size <= _MOST_ENTRIES
    return f"{fixed.text} {np.asarray(value).astype(int).tolist()}" if is_small else fixed.text


def _value_component(m: Measurements, k: int) -> int:
    """The output beside a gradient component: the same place where shapes agree, else the first."""
    total = sum(len(elements) for _, elements in m.components(VALUES))
    return k if k < total else 0


def _number(arrays: Sequence[Array] | None, m: Measurements, row: int, k: int) -> float | None:
    return None if arrays is None else float(columns(arrays, m.count)[row, k])


def _true(m: Measurements, what: str, row: int, k: int) -> str:
    return _real(m.reference.balls(what)[row, k], int(m.reference.states(what)[row, k]))


def _formula(m: Measurements, row: int, k: int) -> str | None:
    """What the rule's formula is over the reals, if that is known."""
    if m.rule is None:
        return None
    states = columns(m.rule.gradient_states, m.count)
    return _real(columns(m.rule.gradients, m.count)[row, k], int(states[row, k]))


def _real(ball: arb, state: int) -> str:
    """A decimal string, as many digits as are certain, at most 12."""
    if state not in (REGULAR, LIMIT):
        return _STATES[state]
    if ball.contains(0) and not ball.is_zero():
        return "0"
    return tidy(ball.str(12, radius=False))


def as_number(value: float, fmt: Format) -> Number:
    """A JSON number that reads back as the same float of the dtype, or a string."""
    if not np.isfinite(value):
        return str(value)
    return float(fmt.show(value))


def _values(array: Any, fmt: Format) -> Number | list[Number] | None:
    flat = np.asarray(array, float).reshape(-1)
    if flat.size > _MOST_ELEMENTS:
        return None
    numbers = [as_number(float(v), fmt) for v in flat]
    return numbers[0] if len(numbers) == 1 else numbers
