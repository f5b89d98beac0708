"""A primal that computes in a narrower dtype than its inputs have, as a program of one cast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.casts import CASTS
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Ground, Kind
from gradcheck_cli.reals.program import Aval, Program, Step
from tests.support import measured


def casting(dtype: Any) -> Program:
    """A program that casts its one number from float32 to a dtype."""
    wide, narrow = Aval((), np.dtype("float32")), Aval((), np.dtype(dtype))
    cast = Step("convert_element_type", {}, (0,), (1,), (wide,), (narrow,), (), None)
    return Program((cast,), (0,), (1,), {}, 2, (wide,), (narrow,))


def judged(primal: Program | None) -> Judgement:
    m = measured([1.0, 2.0], np.square, lambda x, weight: 2 * x * weight)
    m.subject.primal = primal
    return judgement(CASTS, m)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_what_is_not_narrower_passes(dtype: str) -> None:
    result = judged(casting(dtype))
    assert (result.outcome, result.failures) == (Outcome.PASS, ())


def test_without_a_program_no_cast_is_seen() -> None:
    assert judged(None).failures == ()


def test_a_narrower_dtype_is_a_note_with_its_digits() -> None:
    result = judged(casting(ml_dtypes.bfloat16))
    [failure] = result.failures
    assert result.outcome is Outcome.PASS
    assert (failure.rule, failure.severity) == (RuleName.NARROWED_COMPUTATION, Severity.NOTE)
    assert (failure.row, failure.what, failure.everywhere) == (0, VALUES, True)
    assert failure.ground == Ground(Kind.CASTS)
    assert failure.message == "computed in bfloat16: 8 of 24 bits, and judged by that"
