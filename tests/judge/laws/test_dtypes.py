"""A rule in the other dtypes of its function."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.dtypes import DTYPES
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.measure.failure import Ground, Kind
from gradcheck_cli.subject.refusals import RuleError
from gradcheck_cli.subject.results import Sample
from tests.support import Numbers, measured


def judged(*refused: str, sample: Sample | None = None, **measurements: Any) -> Judgement:
    """What the law says of x² in float32, whose rule raises in these dtypes."""
    errors = {dtype: RuleError("backward", f"TypeError: {dtype}") for dtype in refused}
    m = measured(
        [1.0, 2.0], np.square, lambda x, weight: 2 * x * weight, refused=errors, **measurements
    )
    m.subject.sample = sample
    return judgement(DTYPES, m)


def test_a_rule_that_runs_in_every_dtype_passes() -> None:
    result = judged()
    assert (result.outcome, result.failures) == (Outcome.PASS, ())


def test_a_dtype_that_the_rule_refuses_is_a_note() -> None:
    result = judged("float16")
    [failure] = result.failures
    assert result.outcome is Outcome.PASS
    assert (failure.rule, failure.severity) == (RuleName.GRADIENT_STRUCTURE, Severity.NOTE)
    assert (failure.row, failure.everywhere) == (0, True)
    assert failure.ground == Ground(Kind.DTYPES)
    assert failure.message == "in float16, the function runs and its rule raises TypeError: float16"


def test_several_dtypes_are_named_with_the_error_of_the_widest() -> None:
    [failure] = judged("float16", "float64").failures
    assert failure.message.startswith("in float64 and float16, ")
    assert failure.message.endswith("raises TypeError: float64")


def test_the_dtype_of_the_subject_is_not_asked_again() -> None:
    assert judged("float32").failures == ()


def test_a_plain_function_has_no_rule_to_refuse() -> None:
    result = judged("float16", has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")


def test_where_a_call_is_dear_or_large_it_is_not_covered() -> None:
    one = [np.array([0])]
    for result in (judged(truth=partial(Numbers, dear=True)), judged(sample=Sample(one, one))):
        assert (result.outcome, result.reason) == (Outcome.NOT_COVERED, "a call is too dear")
