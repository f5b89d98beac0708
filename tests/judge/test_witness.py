"""The numbers at a failure: what went in, what came out, what it should have been."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Witness, WitnessInput
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.judge.witness import as_number, call_inputs, witness_of
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, UNDECIDED
from gradcheck_cli.subject.results import EAGER
from tests.support import measured
from tests.traced import failure, traced

POINTS = [0.5, 2.0, 3.0]
WRONG = failure(RuleName.GRADIENT_MISMATCH, row=1, modes=())


def square(x):
    return x * x


def slope(x, weight):
    return 2 * x * weight


def witness(m: Measurements, **others: Any) -> Witness:
    numbers = witness_of(replace(WRONG, **others), m)
    assert numbers is not None
    return numbers


def test_a_wrong_gradient_is_shown_beside_the_truth_and_autodiff() -> None:
    m = measured(POINTS, square, slope, rule=lambda x, weight: 3 * x * weight)
    assert witness(m) == Witness(
        inputs=[WitnessInput(path="x", dtype="float32", shape=[], value=2.0, recipe=None)],
        cotangent=1.0,
        argument="x",
        index=[],
        value=4.0,
        value_real="4",
        custom=6.0,
        custom_real="6",
        auto=4.0,
        truth="4",
        bits=1.0,
        mode=EAGER,
    )


def test_of_a_wrong_value_no_gradient_is_shown() -> None:
    m = measured(POINTS, square, slope, floats={"value": lambda x: x * x + 0.25})
    numbers = witness(m, what=VALUES)
    assert (numbers.value, numbers.value_real, numbers.bits) == (4.25, "4", 4.0)
    assert (numbers.argument, numbers.custom, numbers.custom_real) == (None, None, None)
    assert (numbers.auto, numbers.truth) == (None, None)


def test_of_a_plain_function_autodiff_is_judged() -> None:
    nan = {"auto": lambda x, weight: np.full_like(x, np.nan)}
    numbers = witness(measured(POINTS, square, slope, has_rule=False, floats=nan))
    assert (numbers.auto, numbers.truth, numbers.bits) == ("nan", "4", 0.0)
    assert (numbers.custom, numbers.custom_real) == (None, None)


def test_a_formula_that_is_not_known_is_not_shown() -> None:
    m = measured(POINTS, square, slope, reason="it has no program")
    assert witness(m).custom == 4.0
    assert witness(m).custom_real is None


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (POLE, "±inf (pole)"),
        (KINK, "kink"),
        (OUTSIDE, "undefined"),
        (UNDECIDED, "undecided"),
        (LIMIT, "4"),
    ],
)
def test_where_the_truth_is_no_number_the_reason_stands_there(state: int, text: str) -> None:
    m = measured(POINTS, square, slope)
    states = [np.full_like(s, state) for s in m.truth.gradient_states]
    truth = replace(m.truth, gradient_states=states)
    assert witness(replace(m, reference=replace(m.reference, truth=truth))).truth == text


def test_a_third_has_as_many_digits_as_are_certain() -> None:
    m = measured(POINTS, square, lambda x, weight: weight / 3 * 2.0**-30)
    assert witness(m).truth == "3.10440858205e-10"


def test_the_component_is_named_in_an_array() -> None:
    m = traced(lambda x: x * x, np.array([[1.0, 2.0], [3.0, 4.0]]), cotangents=["base"])
    numbers = witness(m, component=1)
    assert (numbers.argument, numbers.index, numbers.truth) == ("x", [1], "-4")
    assert numbers.cotangent == [1.0, -0.5]
    assert numbers.value_real == "16"


def test_beside_a_gradient_without_an_output_of_its_place_the_first_value_stands() -> None:
    m = traced(lambda x: (x * x).sum(), np.array([[1.0, 2.0], [3.0, 4.0]]), cotangents=["base"])
    assert witness(m, component=1).value_real == "25"


def test_what_fails_everywhere_needs_numbers_only_if_its_rule_says_so() -> None:
    m = measured(POINTS, square, slope)
    redundant = replace(WRONG, rule=RuleName.REDUNDANT_RULE)
    assert witness_of(replace(redundant, everywhere=True), m) is None
    assert witness_of(redundant, m) is not None
    assert witness_of(replace(WRONG, everywhere=True), m) is not None


def test_arguments_that_are_not_differentiated_are_inputs_too() -> None:
    leaf, flag = Leaf("x", (2,), "test"), Fixed(True, "True", "test")
    signature = Signature((("x", leaf), ("training", flag)))
    subject: Any = SimpleNamespace(dtype="bfloat16", leaves=[leaf], signature=signature)
    x, training = call_inputs(subject, [np.array([0.1015625, 2.0])])
    assert (x.path, x.dtype, x.shape, x.value) == ("x", "bfloat16", [2], [0.10156, 2.0])
    assert (training.path, training.dtype, training.value) == ("training", "fixed", None)
    assert training.recipe == "True"


def test_a_large_array_is_told_by_its_recipe() -> None:
    leaf = Leaf("x", (65,), "test")
    subject: Any = SimpleNamespace(
        dtype="float32", leaves=[leaf], signature=Signature((("x", leaf),))
    )
    (x,) = call_inputs(subject, [np.ones(65)], "all ones")
    assert (x.value, x.recipe) == (None, "all ones")


@pytest.mark.parametrize(
    ("value", "number"),
    [(float("inf"), "inf"), (float("nan"), "nan"), (float(np.float32(0.1)), 0.1), (-2.0, -2.0)],
)
def test_a_number_reads_back_as_the_same_float(value: float, number: float | str) -> None:
    assert as_number(value, format_of("float32")) == number
