"""What is told of a gradient, from its outcome: verdict, status, and what was not covered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import Finding, LawResult, Outcome, Status, Verdict, Witness
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.input_specs import parse
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.project.rule_pages import find
from tests.check.fakes import Asked, opening
from tests.infer.fitted import NO_HINTS

SCALED = Declared("scaled", "-1.0")
FINE = GradientOutcome(checked=True, moves=True, points=8)


def finding(name: RuleName) -> Finding:
    return find(name).finding("a.py", 7, "it is so", about="f")


def reported(outcome: GradientOutcome, intents: Sequence[Declared] = ()) -> Checked:
    return checked(Asked().request(), opening(*intents), outcome)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (FINE, Verdict.CORRECT),
        (FINE + GradientOutcome(findings=(finding(RuleName.GRADIENT_MISMATCH),)), Verdict.WRONG),
        (FINE + GradientOutcome(answered=frozenset([SCALED])), Verdict.INTENDED),
        (FINE + GradientOutcome(late=True), Verdict.INCONCLUSIVE),
        (GradientOutcome(checked=True, moves=True), Verdict.INCONCLUSIVE),
        (GradientOutcome(checked=True, points=8), Verdict.INCONCLUSIVE),
        (FINE + GradientOutcome(laws=(LawResult(law="formula", outcome=Outcome.NOT_COVERED),)), Verdict.INCONCLUSIVE),
        (FINE + GradientOutcome(late=True, findings=(finding(RuleName.GRADIENT_MISMATCH),)), Verdict.WRONG),
    ],
)  # fmt: skip
def test_the_verdict(outcome: GradientOutcome, verdict: Verdict) -> None:
    assert reported(outcome).gradient.verdict is verdict


def test_what_is_wrong_at_one_signature_is_no_deviation_at_another() -> None:
    def about(name: RuleName, argument: str) -> Finding:
        at = Witness(inputs=[], cotangent=1.0, argument=argument, index=[])
        said = replace_struct(finding(name), witness=at)
        return replace_struct(said, fingerprint=f"{name}-{argument}")

    told = (
        about(RuleName.GRADIENT_MISMATCH, "w"),
        about(RuleName.UNDECLARED_SURROGATE, "w"),
        about(RuleName.UNDECLARED_SURROGATE, "x"),
    )
    shown = reported(FINE + GradientOutcome(findings=told)).findings
    assert [f.fingerprint for f in shown] == ["gradient-mismatch-w", "undeclared-surrogate-x"]


def test_of_values_that_never_change_nothing_is_shown_and_nothing_is_redundant() -> None:
    told = (finding(RuleName.REDUNDANT_RULE),)
    answer = reported(GradientOutcome(checked=True, points=8, findings=told))
    (item,) = answer.not_covered
    assert (item.what, answer.findings) == ("the rule itself", [])
    assert "the same at every input" in item.reason
    assert item.add is not None


def test_what_was_not_checked_has_the_first_reason_and_a_line_to_add() -> None:
    answer = reported(GradientOutcome(reasons=("float32: no signature fits", "another")))
    assert (answer.gradient.status, answer.gradient.verdict) == (Status.UNCHECKED, None)
    (item,) = answer.not_covered
    assert (item.what, item.reason) == ("the whole gradient", "float32: no signature fits")
    assert item.add == ("`# cgcheck: x=f32[n]` above its definition, with the shapes that it takes")


def test_inputs_of_the_user_that_do_not_fit_are_to_be_corrected() -> None:
    specs = parse("x=f32[n k]")
    hints = replace(NO_HINTS, specs=specs, spec_source="the comment for line 6")
    answer = checked(Asked().request(), opening(hints=hints), GradientOutcome())
    (item,) = answer.not_covered
    assert item.add == "other shapes in the comment for line 6: it refuses those that stand there"


@pytest.mark.parametrize("why", [GradientOutcome(late=True), GradientOutcome(beyond_inputs=True)])
def test_no_line_helps_against_time_or_a_missing_primitive(why: GradientOutcome) -> None:
    (item,) = reported(why).not_covered
    assert item.add is None


def test_laws_parts_and_probes_that_are_not_covered_are_told_in_this_order() -> None:
    outcome = FINE + GradientOutcome(
        undecided=2,
        left_out=(("its recorded calls", "outdated"),),
        laws=(LawResult(law="casts", outcome=Outcome.NOT_COVERED, reason="too dear"),),
    )
    whats = [(item.law, item.what) for item in reported(outcome).not_covered]
    assert whats == [("casts", "the law casts"), (None, "its recorded calls"), (None, "2 of 8 probes")]  # fmt: skip


def test_a_declaration_that_explains_nothing_is_a_finding_once_all_was_tried() -> None:
    assert [f.rule for f in reported(FINE, [SCALED]).findings] == [RuleName.UNUSED_INTENT]
    for outcome in (
        FINE + GradientOutcome(late=True),
        GradientOutcome(checked=True, points=8),
        FINE + GradientOutcome(broken=frozenset([SCALED])),
        FINE + GradientOutcome(answered=frozenset([SCALED])),
        GradientOutcome(),
    ):
        assert reported(outcome, [SCALED]).findings == []


def test_errors_come_first_and_silence_that_the_rule_is_redundant() -> None:
    names = (RuleName.REDUNDANT_RULE, RuleName.IMPRECISE_GRADIENT, RuleName.GRADIENT_MISMATCH)
    findings = reported(FINE + GradientOutcome(findings=tuple(map(finding, names)))).findings
    assert RuleName.REDUNDANT_RULE not in [f.rule for f in findings]
    ranks = [f.severity.rank for f in findings]
    assert ranks == sorted(ranks, reverse=True)
    alone = reported(FINE + GradientOutcome(findings=(finding(RuleName.REDUNDANT_RULE),)))
    assert [f.rule for f in alone.findings] == [RuleName.REDUNDANT_RULE]
