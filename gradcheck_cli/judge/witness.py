"""The numbers at a failure: what was given, what came out, what it should have been."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.report import Number, Witness, WitnessInput
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.measure.accuracy import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.engine import Measurements
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, REGULAR, UNDECIDED
from gradcheck_cli.subject.protocol import Shaped

_MOST_ELEMENTS = 64
_STATES = {POLE: "±inf (pole)", KINK: "kink", OUTSIDE: "undefined", UNDECIDED: "undecided"}


def witness_of(failure: Failure, m: Measurements) -> Witness:
    row, k = failure.row, failure.component
    mode = failure.modes[0] if failure.modes else m.mode
    floats = m.floats[mode]
    number, index = component_name(m, failure.what, k)
    gradients = failure.what == GRADIENTS
    rule = m.rule
    values = columns(floats.rule_value, m.count)[row]
    value_at = k if not gradients else _value_component(m, k)
    got = columns(floats.custom, m.count)[row] if floats.custom is not None else None
    auto = columns(floats.auto, m.count)[row] if floats.auto is not None else None
    judged = values[value_at] if not gradients else (got if got is not None else auto)[k]  # type: ignore[index]
    truth = m.reference.middle(VALUES if not gradients else GRADIENTS)[row][
        value_at if not gradients else k
    ]
    return Witness(
        inputs=given_inputs(m.subject, [p[row] for p in m.points], m.recipes[row]),
        cotangent=_values(np.concatenate([c[row].reshape(-1) for c in m.cotangents]), m.fmt),
        argument=m.subject.leaves[number].path if gradients else None,
        index=list(index),
        value=as_number(float(values[value_at]), m.fmt),
        value_real=_real(
            m.reference.balls(VALUES)[row][value_at], int(m.reference.states(VALUES)[row][value_at])
        ),
        custom=as_number(float(got[k]), m.fmt) if got is not None and gradients else None,
        custom_real=_formula(rule, m, row, k) if gradients and got is not None else None,
        auto=as_number(float(auto[k]), m.fmt) if auto is not None and gradients else None,
        truth=_real(
            m.reference.balls(GRADIENTS)[row][k], int(m.reference.states(GRADIENTS)[row][k])
        )
        if gradients
        else None,
        bits=round(float(correct_bits(np.array([judged]), np.array([truth]), m)[0]), 1),
        mode=mode,
    )


def given_inputs(
    subject: Shaped, point: Sequence[Any], recipe: str | None = None
) -> list[WitnessInput]:
    """What the function is called with, guessed arguments that are not differentiated too."""
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
        WitnessInput(path=name, dtype="fixed", shape=[], value=None, recipe=value.text)
        for name, value in subject.signature.arguments
        if isinstance(value, Fixed)
    ]


def _value_component(m: Measurements, k: int) -> int:
    """The output beside a gradient component: the same place where shapes agree, else the first."""
    total = sum(len(elements) for _, elements in m.components(VALUES))
    return k if k < total else 0


def _formula(rule: Any, m: Measurements, row: int, k: int) -> str | None:
    if rule is None:
        return None
    return _real(
        columns(rule.gradients, m.count)[row][k],
        int(columns(rule.gradient_states, m.count)[row][k]),
    )


def _real(ball: arb, state: int) -> str:
    """A decimal string, as many digits as are certain, at most 12."""
    if state not in (REGULAR, LIMIT):
        return _STATES[state]
    if ball.contains(0) and not ball.is_zero():
        return "0"
    return tidy(ball.str(12, radius=False))


def tidy(text: str) -> str:
    """1.00000000000 → 1, 2.06115361819e-9 stays."""
    mantissa, mark, exponent = text.partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}" if mark else mantissa


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


def correct_bits(got: Any, truth: Any, m: Measurements) -> Any:
    """Correct bits of each float, between 0 and the dtype's digits."""
    with np.errstate(all="ignore"):
        error = np.abs(got - truth) / np.abs(truth)
        bits = np.where(error > 0, -np.log2(error), m.fmt.digits)
    bits = np.where((got == truth) | (np.isnan(truth)), m.fmt.digits, bits)
    return np.clip(np.where(np.isnan(got), 0.0, bits), 0.0, float(m.fmt.digits))


# -- boundary and profile -------------------------------------------------------------------
