"""What all laws have in common: outcomes, grounds, and the tuple that lists them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.judge.laws.law import NO_RULE, Reason, judged, over_the_reals
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from tests.support import NumpySubject


def of(severity: Severity) -> Failure:
    return Failure(
        RuleName.GRADIENT_MISMATCH, severity, 0, GRADIENTS, 0, Ground(Kind.FORMULA), "wrong"
    )


def test_notes_let_a_law_pass_and_nothing_graver_does() -> None:
    assert judged("a law", 3, [of(Severity.NOTE)]).outcome is Outcome.PASS
    assert judged("a law", 3, [of(Severity.NOTE), of(Severity.WARNING)]).outcome is Outcome.FAIL
    assert judged("a law", 3, [of(Severity.ERROR)]).outcome is Outcome.FAIL


def test_the_text_of_a_ground_is_its_kind_and_detail() -> None:
    assert Ground(Kind.FORMULA).text == "formula"
    assert Ground(Kind.FORMULA, "x").text == "formula x"
    assert Ground(Kind.DOUBT, "unbiased").text == "doubt about intent unbiased"
    assert Ground(Kind.CONTEXT, "impure-rule traced").text == "context: impure-rule traced"


def test_a_plain_function_whose_inner_rules_have_no_program_is_not_covered() -> None:
    plain: Any = SimpleNamespace(ruled=False, subject=NumpySubject({}, [], Signature(()), primal=1))
    assert over_the_reals(plain) is NO_RULE
    plain.subject.untraced = "the rules that it calls have no gradient"
    assert over_the_reals(plain) == Reason(Outcome.NOT_COVERED, plain.subject.untraced)
    plain.subject.primal = None  # the function itself has none: the truth comes from elsewhere
    assert over_the_reals(plain) is NO_RULE


def test_each_law_has_a_name_of_its_own() -> None:
    names = [law.name for law in LAWS]
    assert sorted(set(names)) == sorted(names)
