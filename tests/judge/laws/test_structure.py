"""The shapes that a rule gives, on programs that are no more than their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.structure import STRUCTURE
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Ground, Kind
from gradcheck_cli.reals.program import Aval, Program
from gradcheck_cli.subject.results import Sample
from tests.support import measured


def judged(*shapes: tuple[int, ...], sample: Sample | None = None, **subject: Any) -> Judgement:
    """What the law says of x², whose rule gives a value and gradients of these shapes."""
    avals = tuple(Aval(shape, np.dtype("float32")) for shape in shapes)
    m = measured([1.0, 2.0], np.square, lambda x, weight: 2 * x * weight, **subject)
    m.subject.program = Program((), (), (), {}, 0, (), avals) if avals else None
    m.subject.sample = sample
    return judgement(STRUCTURE, m)


def test_gradients_of_the_arguments_shapes_pass() -> None:
    assert judged((), ()).outcome is Outcome.PASS


def test_other_shapes_are_an_error() -> None:
    result = judged((), (2,))
    [failure] = result.failures
    assert result.outcome is Outcome.FAIL
    assert (failure.rule, failure.severity) == (RuleName.GRADIENT_STRUCTURE, Severity.ERROR)
    assert (failure.row, failure.what, failure.ground) == (0, GRADIENTS, Ground(Kind.STRUCTURE))
    assert failure.message == (
        "the rule gives arrays of shapes [(), (2,)], expected are [(), ()]"
    )  # fmt: skip


def test_a_gradient_that_is_missing_is_an_error() -> None:
    [failure] = judged(()).failures
    assert "shapes [()], expected are [(), ()]" in failure.message


def test_a_rule_without_a_program_was_checked_by_its_framework() -> None:
    assert judged().outcome is Outcome.PASS


def test_of_a_sample_of_components_the_shapes_were_judged_before() -> None:
    one = [np.array([0])]
    assert judged((), (2,), sample=Sample(one, one)).outcome is Outcome.PASS


def test_a_plain_function_has_no_rule_to_judge() -> None:
    result = judged((), (2,), has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")
