"""A change that makes the rule right is shown: verified, in the user's spelling."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.judge.repair.correction import correction
from gradcheck_cli.judge.repair.trial import Trial
from tests.conftest import check_json
from tests.traced import fixture, gradient_of, ruled, traced

X = np.array([0.5, -1.5, 3.0, 0.25, 2.5, -4.0])
Y = np.array([2.0, 0.75, -1.25, 3.0, -0.5, 30.0])
VECTORS = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])
MATRICES = np.arange(24.0).reshape(2, 4, 3) / 8 - 1.25
ALL = range(len(X))

FORMULAS: list[tuple[str, tuple[Any, ...], list[int], str]] = [
    ("wave", (X, Y), list(ALL), "`jnp.cos(x) * dx * y + jnp.sin(x) * dy` instead of"),
    ("square", (X,), list(ALL), "line 27: `2 * (ct * x)` instead of `ct * x`"),
    (
        "rms_norm",
        (VECTORS, VECTORS[::-1] + 1),
        [0, 1],
        "line 44: `jnp.mean(ct * normed * w)` instead of",
    ),
    ("row_loss", (VECTORS,), [0, 1], "line 67: `ct` instead of `ct[0]`"),
    ("mean_energy", (MATRICES,), [0, 1], "`2 * ct * x / x.shape[0]` instead of `2 * ct * x`"),
    ("ramp", (np.append(X, 7.0), np.append(Y, 5.0)), [5, 6], "`beta * x` instead of `beta`"),
]


@pytest.mark.parametrize(("name", "columns", "wrong", "change"), FORMULAS)
def test_the_change_is_shown(
    name: str, columns: tuple[Any, ...], wrong: list[int], change: str
) -> None:
    function = getattr(fixture("wrong/formula"), name)
    names = ("x", "w") if name == "rms_norm" else ("x", "y")
    m = traced(function, *columns, names=names)
    fix = correction([Trial(m, wrong)], gradient_of(function))
    assert fix is not None
    assert change in fix.text
    assert fix.text.endswith(f"(then it is the truth at all {m.count} probes)")


def test_a_size_that_was_one_number_everywhere_may_be_another() -> None:
    function = fixture("wrong/formula").mean_energy
    trials = [Trial(traced(function, m, names=("x",)), [0, 1]) for m in (MATRICES, MATRICES[:, :3])]
    alone, both = (correction(each, gradient_of(function)) for each in (trials[:1], trials))
    assert alone is not None
    assert not alone.is_safe
    assert both is not None
    assert both.is_safe


def test_the_function_stays_as_it_was() -> None:
    square = fixture("wrong/formula").square
    m = traced(square, X)
    assert correction([Trial(m, list(ALL))], gradient_of(square)) is not None
    assert float(jax.grad(square)(3.0)) == 3.0


def test_a_residual_that_was_never_kept_gets_no_change() -> None:
    weighted = fixture("wrong/formula").weighted
    m = traced(weighted, X, Y, names=("x", "w"))
    assert correction([Trial(m, list(ALL))], gradient_of(weighted)) is None


def test_a_factor_that_is_right_in_one_mode_and_wrong_in_the_other_gets_no_change() -> None:
    function = fixture("wrong/formula").doubled_in_training
    modes = [traced(function, X, fixed=[("training", Fixed(on, str(on), "test"))]) for on in (True, False)]  # fmt: skip
    gradient = gradient_of(function)
    assert correction([Trial(modes[0], list(ALL))], gradient) is not None
    assert correction([Trial(modes[0], list(ALL)), Trial(modes[1], [])], gradient) is None


def test_a_change_that_is_right_only_where_it_is_tried_first_is_not_shown() -> None:
    """2 x passes where x is positive: the rows that are not tried first verify it."""
    function = ruled(
        lambda x: jnp.where(x > 0, x**2, jnp.cos(3 * x) / x),
        lambda residuals, ct: (ct * residuals[0],),
    )
    positive = np.array([0.5, 1.5, 2.5, 3.5])
    trial = Trial(traced(function, positive, cotangents=["base"]), [0])
    assert correction([trial], gradient_of(function)) is not None
    both = np.array([0.5, 1.5, 2.5, -3.5])
    trial = Trial(traced(function, both, cotangents=["base"]), [0])
    assert correction([trial], gradient_of(function)) is None


def test_a_rule_that_is_not_wrong_where_the_truth_is_known_is_left_alone() -> None:
    square = fixture("wrong/formula").square
    assert correction([Trial(traced(square, X), [])], gradient_of(square)) is None


def test_a_rule_with_a_loop_is_not_changed() -> None:
    """A change may take away its end."""

    def halved(residuals, ct):
        return (jax.lax.while_loop(lambda s: s > 1, lambda s: s / 2, residuals[0]) * ct,)

    function = ruled(lambda x: x * x, halved)
    trial = Trial(traced(function, X), list(ALL))
    assert not trial.simple
    assert correction([trial], gradient_of(function)) is None


def test_the_wrong_rows_and_two_ordinary_ones_are_tried_first() -> None:
    m = traced(jnp.square, np.array([0.0, 1.0, 50.0, 2.0, -3.0]), cotangents=["base"])
    trial = Trial(m, [0])
    assert trial.rows().tolist() == [0, 1, 2, 3, 4]
    assert trial.screens(trial.rows()) == [0, 3, 4]


@pytest.mark.slow  # whole runs of the other frameworks
@pytest.mark.needs("tensorflow", "torch")
@pytest.mark.parametrize(
    ("file", "name", "change"),
    [
        ("torch/wrong.py", "Sign", "`grad` instead of `-grad`"),
        ("torch/wrong.py", "BranchVariable", "`x` instead of `out`"),
        ("tensorflow/wrong.py", "swapped", "`(dy * 2 * x * y, dy * x * x)` instead of"),
        ("tensorflow/wrong.py", "clipped", "`3.0 * dy` instead of `tf.clip_by_value(3.0 * dy, -8.0, 8.0)`"),
    ],
)  # fmt: skip
def test_the_change_is_shown_in_other_frameworks(file: str, name: str, change: str) -> None:
    errors = [f for f in check_json(f"fixtures/{file}").findings(name) if f["severity"] == "error"]
    assert errors
    for finding in errors:
        assert change in finding["fix"]
        assert "(then it is the truth at all " in finding["fix"]
