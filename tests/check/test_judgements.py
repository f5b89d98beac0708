"""All laws on measurements that are made by hand, beside what is declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.check.findings import findings
from gradcheck_cli.check.judgements import Judgements, judgements
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import Outcome
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Doing, Phase
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.project.intent_specs import Declared
from tests.check.fakes import Asked
from tests.support import measured

POINTS = [0.5, 1.0, 2.0, -3.0]
NEGATED = Declared("scaled", "-1.0")


def right(x: Any, weight: Any) -> Any:
    return 2 * weight * x


def negated(x: Any, weight: Any) -> Any:
    return -2 * weight * x


def judged(rule: Any, *intents: Declared) -> Judgements:
    return judgements(Asked().request(), measured(POINTS, np.square, right, rule=rule), intents)


def test_a_right_rule_keeps_every_law_that_is_asked() -> None:
    result = judged(right)
    assert not result.has_error
    assert {law.outcome for law in result.outcome.laws} <= {Outcome.PASS, Outcome.NOT_APPLICABLE}
    assert [law.law for law in result.outcome.laws] == [law.name for law in LAWS]


def test_a_wrong_rule_fails_its_law_and_is_to_be_corrected() -> None:
    result = judged(negated)
    assert result.has_error
    assert result.outcome.law("formula") is Outcome.FAIL
    (trial,) = result.outcome.trials
    (mismatch,) = (f for f in result.undeclared if f.rule == RuleName.GRADIENT_MISMATCH)
    assert trial.wrong == [mismatch.row]


def test_what_is_declared_keeps_the_law_and_was_an_error_all_the_same() -> None:
    result = judged(negated, NEGATED)
    assert result.has_error  # so that no search is made for another one
    assert result.outcome.law("formula") is Outcome.PASS
    assert result.outcome.answered == {NEGATED}
    assert all(f.rule != RuleName.GRADIENT_MISMATCH for f in result.undeclared)


def test_a_promise_that_is_not_kept_is_broken() -> None:
    result = judged(right, NEGATED)
    assert result.outcome.broken == {NEGATED}
    assert [f.rule for f in result.undeclared if f.rule == RuleName.BROKEN_INTENT]


def test_a_bug_in_one_law_leaves_the_others_standing(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr("gradcheck_cli.judge.laws.formula.Formula.judge", bug)
    result = judged(negated)
    assert [f.rule for f in result.outcome.findings] == [RuleName.INTERNAL_ERROR]
    assert result.outcome.law("formula") is None
    assert len(result.outcome.laws) == len(LAWS) - 1


def test_each_failure_becomes_a_finding_once() -> None:
    asked = Asked()
    result = judgements(asked.request(), measured(POINTS, np.square, right, rule=negated), [])
    steps = list(findings(asked.request(), result, ()))
    assert all(len(step.findings) == 1 for step in steps)
    outcome = sum(steps, GradientOutcome())
    assert RuleName.GRADIENT_MISMATCH in [f.rule for f in outcome.findings]
    phases = [event.phase for event in asked.events if isinstance(event, Doing)]
    assert set(phases) == {Phase.EXPLAINING}
    assert list(findings(asked.request(), result, outcome.failures)) == []
