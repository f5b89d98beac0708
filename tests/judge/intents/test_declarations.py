"""What is declared of one gradient: what it answers, what is needed for nothing, what is offered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.judge.intents import INTENTS, declarations
from gradcheck_cli.judge.intents.declarations import Declarations, comment_for
from gradcheck_cli.judge.intents.intent import Doubt
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import FORMS, Declared, parse
from tests.support import declare, measured, mismatch

REVERSED, TWICE, ZERO = Declared("scaled", "-1"), Declared("scaled", "2"), Declared("zero", "x")


@pytest.fixture(scope="module")
def reversal() -> Measurements:
    return measured(
        [0.5, 2.0], lambda x: x * x, lambda x, weight: 2 * x * weight, rule=lambda x, w: -2 * x * w
    )


def test_every_intent_can_be_written_and_but_for_domains_every_one_is_held_to_a_law() -> None:
    assert {intent.name for intent in INTENTS} == set(FORMS) - {"domain"}


def test_a_promise_that_is_kept_answers_and_is_used(reversal: Measurements) -> None:
    declarations = Declarations([REVERSED])
    assert declarations.answer([mismatch()], reversal) == []
    assert (declarations.used, declarations.broken, declarations.unused) == ({REVERSED}, set(), [])


def test_a_promise_that_is_not_kept_is_an_error_beside_the_failure(reversal: Measurements) -> None:
    declarations = Declarations([TWICE])
    left, broken = declarations.answer([mismatch()], reversal)
    assert left == mismatch()
    assert (broken.rule, broken.severity, broken.everywhere) == ("broken-intent", Severity.ERROR, True)  # fmt: skip
    assert (declarations.used, declarations.broken, declarations.unused) == (set(), {TWICE}, [])


def test_a_promise_that_is_not_kept_is_an_error_without_any_failure(reversal: Measurements) -> None:
    (broken,) = Declarations([TWICE]).answer([], reversal)
    assert broken.rule == "broken-intent"


def test_a_promise_that_answers_nothing_is_unused(reversal: Measurements) -> None:
    declarations = Declarations([REVERSED])
    other = mismatch(rule=RuleName.VALUE_MISMATCH)
    assert declarations.answer([other], reversal) == [other]
    assert declarations.unused == [REVERSED]


def test_a_domain_is_no_promise(reversal: Measurements) -> None:
    declarations = Declarations([Declared("domain", "x > 0")])
    assert declarations.answer([mismatch()], reversal) == [mismatch()]
    assert declarations.unused == []


def test_each_promise_is_held_to_its_own_law(reversal: Measurements) -> None:
    declarations = Declarations([ZERO, REVERSED])
    assert [f.rule for f in declarations.answer([mismatch()], reversal)] == ["broken-intent"]
    assert (declarations.used, declarations.broken) == ({REVERSED}, {ZERO})


def test_without_a_formula_nothing_can_be_held_to_a_law() -> None:
    m = measured([1.0], lambda x: x, lambda x, weight: weight, reason="it has no program")
    assert declare(m, "scaled", "-1") == [mismatch()]
    assert comment_for(mismatch(), m) is None


@dataclasses.dataclass(frozen=True)
class Unsettled:
    """An intent of which nothing is known."""

    name: str = "unsettled"
    answers: frozenset[RuleName] = frozenset({RuleName.GRADIENT_MISMATCH})

    def broken(self, m: Measurements, argument: str | None) -> Doubt:
        return Doubt("there are no points")

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return failure.component == 0

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        yield None


def test_a_doubt_takes_the_place_of_what_the_promise_would_answer(
    reversal: Measurements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declarations, "_BY_NAME", {"unsettled": Unsettled()})
    (doubt,) = declare(reversal, "unsettled")
    assert (doubt.rule, doubt.severity, doubt.everywhere) == ("inconclusive-gradient", Severity.WARNING, True)  # fmt: skip
    assert doubt.message == (
        "whether `expect(unsettled)` holds could not be told: there are no points"
    )
    assert declare(reversal, "unsettled", None, mismatch(1)) == [mismatch(1)]


def test_what_is_in_doubt_is_not_offered(
    reversal: Measurements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declarations, "INTENTS", (Unsettled(),))
    assert comment_for(mismatch(), reversal) is None


def test_the_narrowest_intent_is_offered_and_its_comment_is_accepted(
    reversal: Measurements,
) -> None:
    text = comment_for(mismatch(), reversal)
    assert text == "expect(scaled=-1)"
    assert Declarations(parse(text)).answer([mismatch()], reversal) == []


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.NOTE])
def test_nothing_is_offered_for_less_than_an_error(
    reversal: Measurements, severity: Severity
) -> None:
    assert comment_for(dataclasses.replace(mismatch(), severity=severity), reversal) is None


def test_what_is_declared_of_a_complex_argument_is_declared_of_both_parts() -> None:
    parts = measured(
        {"z.real": [1.0, 2.0], "z.imag": [0.5, 4.0]},
        lambda re, im: re * im,
        lambda re, im, weight: (im * weight, re * weight),
        rule=lambda re, im, weight: (0 * weight, 0 * weight),
    )
    whole = Signature((("z", Leaf("z", (), "test", is_complex=True)),))
    m = dataclasses.replace(parts, subject=dataclasses.replace(parts.subject, signature=whole))
    assert declare(m, "zero", "z", mismatch(0), mismatch(1)) == []
