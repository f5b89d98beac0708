"""Each value of a run, float beside ball: its correct bits, and whether it left its format's range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.judge.diagnose.float_slots import (
    bits_beside,
    format_after,
    in_words,
    least_bits,
    out_of_range,
)
from gradcheck_cli.reals.float_trace import Shadow, shadow
from tests.judge.diagnose.by_hand import balls
from tests.traced import traced


@pytest.mark.parametrize(
    ("number", "truth", "bits"),
    [
        (np.inf, 1e39, 24),  # an overflow stands for what is beyond the format
        (-np.inf, 1e39, 0),
        (np.inf, 1e38, 0),
        (0.0, 1e-40, 24),  # so does zero for what is below it
        (0.0, 1e-30, 0),
        (1.5, 1.0, 1),
        (np.nan, 1.0, 0),
        (np.nan, np.nan, 24),  # there is nothing to be wrong about
    ],
)
def test_what_a_float_stands_for_is_correct(number: float, truth: float, bits: float) -> None:
    assert bits_beside(np.float32(number), balls([truth])).tolist() == bits


def run(function: Callable[[Any], Any], x: float) -> Shadow:
    """The value of a function at one number, as floats and balls side by side."""
    m = traced(function, [x], cotangents=["base"])
    program = m.subject.traces().primal
    assert program is not None
    both = shadow(program, [np.array(x), np.array(1.0)], 256)
    assert both is not None
    return both


def test_the_worst_float_of_a_slot_counts() -> None:
    cancels = run(lambda x: (x + 1) - x, 1e8)
    (value, *_) = cancels.program.outputs
    assert least_bits(cancels, cancels.program.inputs[0]) == 24
    assert least_bits(cancels, value) == 0


def step_with(both: Shadow, name: str) -> Any:
    return next(step for step in both.program.steps if step.name == name)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (100.0, "overflows in float32: it is 2.69e+43"),
        (-110.0, "underflows to 0 in float32: it is 1.69e-48"),
    ],
)
def test_a_step_that_leaves_the_range_says_what_it_should_be(x: float, text: str) -> None:
    both = run(lambda x: jnp.log(jnp.exp(x)), x)
    step = step_with(both, "exp")
    assert out_of_range(both, step.outs) == step.outs[0]
    assert out_of_range(both, step.ins) is None
    assert in_words(both, step) == text
    assert format_after(both, step).name == "float32"


def test_a_zero_and_an_infinity_that_are_the_truth_stay_in_range() -> None:
    both = run(lambda x: jnp.sin(x) * 2, 0.0)
    assert out_of_range(both, step_with(both, "sin").outs) is None


def test_bfloat16_overflows_as_float32_does() -> None:
    both = run(lambda x: jnp.exp(x.astype(jnp.bfloat16)).astype(jnp.float32) / 2, 100.0)
    step = step_with(both, "exp")
    assert out_of_range(both, step.outs) == step.outs[0]
    assert in_words(both, step) == "overflows in bfloat16: it is 2.69e+43"
