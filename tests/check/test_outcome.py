"""Outcomes of parts add up to that of a gradient."""

from __future__ import annotations

import pytest

from gradcheck_cli.check.outcome import GradientOutcome, summed_laws
from gradcheck_cli.contract.report import Evidence, LawResult, Outcome

PASS, FAIL = Outcome.PASS, Outcome.FAIL
NOT_APPLICABLE, NOT_COVERED = Outcome.NOT_APPLICABLE, Outcome.NOT_COVERED
CERTIFIED, FLOAT64 = Evidence.CERTIFIED, Evidence.FLOAT64


def law(
    outcome: Outcome,
    points: int = 0,
    evidence: Evidence | None = None,
    reason: str | None = None,
    name: str = "formula",
) -> LawResult:
    return LawResult(law=name, outcome=outcome, evidence=evidence, points=points, reason=reason)


@pytest.mark.parametrize(
    ("first", "second", "worse"),
    [
        (PASS, FAIL, FAIL),
        (PASS, NOT_APPLICABLE, PASS),
        (PASS, NOT_COVERED, NOT_COVERED),
        (NOT_COVERED, FAIL, FAIL),
        (NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE),
    ],
)
def test_the_worse_outcome_of_a_law_stands(first: Outcome, second: Outcome, worse: Outcome) -> None:
    for pair in ((first, second), (second, first)):
        (result,) = summed_laws([law(outcome, 3) for outcome in pair])
        assert (result.outcome, result.points) == (worse, 6)


def test_a_law_rests_on_the_weakest_evidence_of_where_it_was_judged() -> None:
    both = [law(PASS, 1, CERTIFIED), law(PASS, 1, FLOAT64)]
    assert [r.evidence for r in summed_laws(both)] == [FLOAT64]
    assert [r.evidence for r in summed_laws([*both, law(NOT_APPLICABLE)])] == [FLOAT64]
    assert [r.evidence for r in summed_laws([*both, law(NOT_COVERED)])] == [None]


def test_the_reason_of_the_worse_outcome_is_kept() -> None:
    (result,) = summed_laws([law(NOT_COVERED, reason="too dear"), law(PASS, reason="declared")])
    assert result.reason == "too dear"
    (result,) = summed_laws([law(PASS, reason="declared"), law(NOT_COVERED, reason="too dear")])
    assert result.reason == "too dear"


def test_laws_stay_in_the_order_in_which_they_were_asked() -> None:
    results = summed_laws([law(PASS, name="b"), law(PASS, name="a"), law(FAIL, name="b")])
    assert [r.law for r in results] == ["b", "a"]


def test_outcomes_add_up() -> None:
    first = GradientOutcome(checked=True, last="x: float[]", points=5, dtypes=("float32",), reasons=("no",))  # fmt: skip
    second = GradientOutcome(points=7, undecided=1, dtypes=("float32", "float64"), weaker="a draw")
    both = first + second
    assert both.checked
    assert (both.points, both.undecided, both.last, both.weaker) == (12, 1, "x: float[]", "a draw")
    assert both.dtypes == ("float32", "float64")
    assert both.reasons == ("no",)
    assert first + GradientOutcome() == GradientOutcome() + first == first


def test_a_gradient_rests_on_the_weakest_of_its_laws() -> None:
    laws = (law(PASS, 1, FLOAT64), law(PASS, 1, CERTIFIED, name="value"))
    outcome = GradientOutcome(laws=laws)
    assert outcome.evidence is FLOAT64
    assert GradientOutcome().evidence is CERTIFIED
    assert (outcome.law("value"), outcome.law("casts")) == (PASS, None)
