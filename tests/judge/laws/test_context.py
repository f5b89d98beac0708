"""Other ways to make the same call, on hand-made measurements."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.laws.context import CONTEXT
from gradcheck_cli.judge.laws.law import judgement
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong
from tests.support import measured

SITE = Site("a.py", 1, 0, 0, "f", "a.py", "/")


def raising(name: str, error: str) -> OtherCall:
    def run(point: Any, cotangent: Any) -> Any:
        message = f"{name}, the rule raises {error}"
        raise WentWrong(RuleName.CONTEXT_DEPENDENT_GRADIENT, Severity.ERROR, message)

    return OtherCall(name, run)


def failures(*ways: OtherCall) -> list[Failure]:
    """What the law says of a function of one number, right in the plain call."""
    m = measured([1.0, 2.0], lambda x: x * x, lambda x, weight: 2 * x * weight, ways=ways)
    return list(judgement(CONTEXT, m).failures)


def test_the_numbers_in_an_error_do_not_enter_the_fingerprint() -> None:
    (three,) = failures(raising("under vmap", "ValueError: 3 and 4 do not fit"))
    (five,) = failures(raising("under vmap", "ValueError: 5 and 6 do not fit"))
    assert three.message != five.message
    assert fingerprint(three.rule, SITE, three.ground.text, 0) == fingerprint(
        five.rule, SITE, five.ground.text, 0
    )


def test_an_error_that_two_ways_raise_is_one_failure() -> None:
    (one,) = failures(raising("under vmap", "an error"), raising("inside scan", "an error"))
    assert one.message == "under vmap, the rule raises an error"


def test_two_errors_have_two_identities() -> None:
    first, second = failures(raising("under vmap", "an error"), raising("inside scan", "another"))
    assert fingerprint(first.rule, SITE, first.ground.text, 0) != fingerprint(
        second.rule, SITE, second.ground.text, 0
    )
