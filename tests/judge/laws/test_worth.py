"""What autodiff through the primal gives instead of a rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.worth import WORTH
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Ground, Kind
from gradcheck_cli.measure.run_alone import Alone
from gradcheck_cli.subject.results import EAGER, Kernel
from tests.support import measured

POINTS = [0.5, 1.0, 100.0, 2.0]


def slope(x: Any, weight: Any) -> Any:
    return 2 * x * weight


def at_100(value: float) -> Any:
    """The right gradient but at one point."""
    return lambda x, weight: np.where(x == 100.0, value, slope(x, weight))


def judged(floats: Any = None, **measurements: Any) -> Judgement:
    return judgement(WORTH, measured(POINTS, np.square, slope, floats=floats, **measurements))


@pytest.mark.parametrize(
    ("auto", "cause", "gives"),
    [
        (np.nan, "nan", "gives NaN"),
        (np.inf, "inf", "is infinite"),
        (0.0, "zero", "gives 0"),
        (300.0, "digits", "loses its digits"),
    ],
)
def test_a_fault_of_autodiff_that_the_rule_does_not_have_is_a_note(
    auto: float, cause: str, gives: str
) -> None:
    result = judged({"auto": at_100(auto)})
    [failure] = result.failures
    assert result.outcome is Outcome.PASS
    assert (failure.rule, failure.severity) == (RuleName.REPAIRED_AUTODIFF, Severity.NOTE)
    assert (POINTS[failure.row], failure.what, failure.component) == (100.0, GRADIENTS, 0)
    assert failure.ground == Ground(Kind.AUTODIFF_FLOATS, cause)
    assert failure.message == f"autodiff through the primal {gives}, this rule repairs it"
    assert (failure.modes, failure.alone) == ((EAGER,), Alone(failure.row, EAGER, "auto"))


def test_a_fault_that_the_rule_has_too_is_no_repair() -> None:
    both = {"auto": at_100(np.nan), "custom": at_100(np.nan)}
    assert judged(both).failures == ()


def test_a_fault_of_autodiff_beyond_the_reach_is_no_repair() -> None:
    at_2 = {"auto": lambda x, weight: np.where(x == 2.0, np.nan, slope(x, weight))}
    [failure] = judged(at_2, beyond=1).failures
    assert failure.rule is RuleName.REDUNDANT_RULE


def test_a_fault_of_the_batch_alone_is_no_repair() -> None:
    assert judged({"auto": at_100(np.nan)}, alone={"auto": slope}).failures == ()


def test_a_wrong_formula_is_not_called_redundant() -> None:
    assert judged(rule=lambda x, weight: 3 * x * weight).failures == ()


def test_a_rule_that_is_nowhere_better_is_redundant() -> None:
    result = judged()
    [failure] = result.failures
    assert result.outcome is Outcome.PASS
    assert (failure.rule, failure.severity) == (RuleName.REDUNDANT_RULE, Severity.NOTE)
    assert (failure.row, failure.everywhere) == (0, True)
    assert failure.ground == Ground(Kind.REDUNDANT)


def test_a_rule_of_kernels_is_not_called_redundant() -> None:
    """Autodiff goes through their interpretation only."""
    assert judged(kernels=(Kernel(()),)).failures == ()


def test_a_rule_that_loses_digits_is_not_called_redundant() -> None:
    assert judged({"custom": at_100(201.0)}).failures == ()


def test_a_plain_function_has_no_rule_to_weigh() -> None:
    result = judged(has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")


def test_without_autodiff_there_is_nothing_to_weigh_it_with() -> None:
    result = judged({"auto": None})
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert result.reason == "autodiff does not go through the primal"


def test_nothing_is_repaired_where_the_rule_has_a_fault_of_its_own() -> None:
    def measurements(rule_at_2: float) -> Any:
        def auto(x: Any, weight: Any) -> Any:
            return np.where(x >= 2.0, np.nan, slope(x, weight))

        def custom(x: Any, weight: Any) -> Any:
            return np.where(x == 2.0, rule_at_2, slope(x, weight))

        return measured(POINTS, np.square, slope, floats={"auto": auto, "custom": custom})

    def repaired(m: Any) -> set[float]:
        assert failure.holds is not None
        return {POINTS[p.point] for p, held in zip(m.probes, failure.holds(m), strict=True) if held}

    [failure] = judgement(WORTH, measurements(4.0)).failures
    assert repaired(measurements(4.0)) == {2.0, 100.0}
    assert repaired(measurements(np.nan)) == {100.0}
