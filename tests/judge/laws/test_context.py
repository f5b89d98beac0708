"""Other calls of the same gradient, on hand-made measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.laws.context import CONTEXT
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong
from tests.support import measured

Numbers = Sequence[Any]

SITE = Site("a.py", 1, 0, 0, "f", "a.py", "/")
POINTS = [100.0, 2.0, -3.0]


def judged(*calls: OtherCall, **measurements: Any) -> Judgement:
    """What the law says of x², right in the plain call, when these other calls are made."""
    m = measured(POINTS, np.square, lambda x, weight: 2 * x * weight, ways=calls, **measurements)
    return judgement(CONTEXT, m)


def failures(*calls: OtherCall) -> list[Failure]:
    return list(judged(*calls).failures)


def giving(name: str, factor: float, **call: Any) -> OtherCall:
    """A call that gives so many times the gradient of the plain one."""

    def run(point: Numbers, cotangent: Numbers) -> Any:
        gradient = 2 * point[0] * cotangent[0]
        return [factor * gradient], [gradient]

    return OtherCall(name, run, **call)


def raising(name: str, error: str, during: bool = True) -> OtherCall:
    def run(point: Numbers, cotangent: Numbers) -> Any:
        rule, severity = RuleName.CONTEXT_DEPENDENT_GRADIENT, Severity.ERROR
        raise WentWrong(rule, severity, error, name if during else None)

    return OtherCall(name, run)


def impure(name: str, severity: Severity) -> OtherCall:
    return giving(name, 2.0, rule=RuleName.IMPURE_RULE, severity=severity)


def identity(failure: Failure) -> str:
    return fingerprint(failure.rule, SITE, failure.ground.text, 0)


def test_calls_that_give_the_same_gradient_pass() -> None:
    result = judged(giving("under vmap", 1.0), giving("inside scan", 1.0 + 2**-20))
    assert (result.outcome, result.failures, result.points) == (Outcome.PASS, (), 2)


def test_another_gradient_is_a_failure_of_that_call_at_the_plainest_point() -> None:
    [failure] = failures(giving("inside scan", 1.0), giving("under vmap", 2.0))
    assert failure.rule is RuleName.CONTEXT_DEPENDENT_GRADIENT
    assert failure.severity is Severity.ERROR
    assert POINTS[failure.row] == 2.0
    assert failure.ground == Ground(Kind.CONTEXT, "context-dependent-gradient under vmap")
    assert failure.message == "under vmap, the gradient is 8, else it is 4"


def test_nan_in_another_call_is_a_failure() -> None:
    [failure] = failures(giving("under vmap", np.nan))
    assert failure.message == "under vmap, the gradient is nan, else it is 4"


def test_a_gradient_that_was_not_asked_for_is_not_compared() -> None:
    call = OtherCall("alone", lambda point, cotangent: ([None], [2 * point[0]]))
    assert failures(call) == []


def test_a_call_that_says_nothing_is_no_failure() -> None:
    assert failures(OtherCall("twice", lambda point, cotangent: None)) == []


def test_a_call_says_its_own_rule_severity_words_and_help() -> None:
    [failure] = failures(
        giving(
            "twice", 3.0, rule=RuleName.WRONG_SECOND_DERIVATIVE, severity=Severity.NOTE,
            says="{}: {} for {}", help="differentiate it",
        )
    )  # fmt: skip
    assert (failure.rule, failure.severity) == (RuleName.WRONG_SECOND_DERIVATIVE, Severity.NOTE)
    assert (failure.message, failure.help) == ("twice: 12 for 4", "differentiate it")


def test_the_gravest_impurity_explains_all_other_failures() -> None:
    calls = [
        giving("under vmap", 2.0),
        impure("traced", Severity.WARNING),
        impure("called again", Severity.ERROR),
    ]
    [failure] = failures(*calls)
    assert failure.message.startswith("called again")


def test_the_numbers_in_an_error_do_not_enter_the_fingerprint() -> None:
    [three] = failures(raising("under vmap", "the rule raises ValueError: 3 and 4 do not fit"))
    [five] = failures(raising("under vmap", "the rule raises ValueError: 5 and 6 do not fit"))
    assert three.message != five.message
    assert identity(three) == identity(five)


def test_an_error_that_two_calls_raise_is_one_failure() -> None:
    [one] = failures(raising("under vmap", "an error"), raising("inside scan", "an error"))
    assert one.message == "under vmap, an error"


def test_an_error_without_the_name_of_its_call_is_compared_as_it_stands() -> None:
    same = "under vmap, an error"
    [one] = failures(raising("under vmap", same, during=False), raising("inside scan", same, False))
    assert one.message == same


def test_two_errors_have_two_identities() -> None:
    first, second = failures(raising("under vmap", "an error"), raising("inside scan", "another"))
    assert identity(first) != identity(second)


def test_a_plain_function_has_no_rule_to_call_in_another_way() -> None:
    result = judged(giving("under vmap", 2.0), has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")


def test_a_framework_without_other_calls_makes_it_not_applicable() -> None:
    assert judged().outcome is Outcome.NOT_APPLICABLE


def test_without_a_regular_point_it_is_not_covered() -> None:
    def nowhere(x: Any, weight: Any = None) -> Any:
        return np.full_like(x, np.nan)

    m = measured(POINTS, nowhere, nowhere, ways=[giving("under vmap", 2.0)])
    result = judgement(CONTEXT, m)
    assert result.outcome is Outcome.NOT_COVERED
    assert result.reason == "no point that was tried is regular"


def test_noise_beside_a_gradient_of_0_is_no_difference() -> None:
    """Rounding of 6e-8 and of 4e-8, where values of the size of 4 are divided by x."""

    def around(rest: float) -> OtherCall:
        def run(point: Numbers, cotangent: Numbers) -> Any:
            return [np.full_like(point[0], rest)], [np.full_like(point[0], 4e-8)]

        return OtherCall("inside a transformation", run)

    flat = measured(POINTS, lambda x: 4 + 0 * x, lambda x, weight: 0 * x, ways=[around(6e-8)])
    assert judgement(CONTEXT, flat).outcome is Outcome.PASS
    apart = measured(POINTS, lambda x: 4 + 0 * x, lambda x, weight: 0 * x, ways=[around(0.5)])
    assert judgement(CONTEXT, apart).outcome is Outcome.FAIL
