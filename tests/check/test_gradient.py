"""One gradient over its dtypes and signatures: what adds up, and what is left when time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck_cli.check import subjects
from gradcheck_cli.check.deadline import OutOfTime
from gradcheck_cli.check.gradient import examine
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.signatures import Signatures
from gradcheck_cli.contract.report import Severity, Status, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.results import Traces
from tests.check.fakes import TASK, Asked
from tests.support import mismatch

Steps = Callable[[str, Sequence[Failure]], Iterator[GradientOutcome]]
TOO_LONG = "it took longer than the 10 s that a worker has: raise --max-time"
NOTE = replace(find(RuleName.REPAIRED_AUTODIFF).finding("a.py", 7, "it repairs it", about="f"), severity=Severity.NOTE)  # fmt: skip


@dataclass(frozen=True)
class Named:
    """A subject of which only the signature is looked at."""

    argument: str
    kernels: tuple[()] = ()

    @property
    def signature(self) -> Signature:
        return Signature(((self.argument, Leaf(self.argument, (), "test")),))

    def traces(self) -> Traces:
        return Traces(None, None)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Checked]:
    """A check of two signatures, `x` and `y`, of which the test says what each step adds."""

    def check(steps: Steps, dtypes: Sequence[str] = ("float32",)) -> Checked:
        subjects: Any = [Named("x"), Named("y")]

        def attempt(
            request: Any, subject: Named, intents: Any, earlier: Sequence[Failure]
        ) -> Iterator[GradientOutcome]:
            yield GradientOutcome(last=subject.signature.describe())
            yield from steps(subject.argument, earlier)

        monkeypatch.setattr("gradcheck_cli.check.subjects.attempt", attempt)
        for place, value in (("signatures", Signatures(subjects, GradientOutcome())), ("refused_broadcast", GradientOutcome())):  # fmt: skip
            monkeypatch.setattr(f"gradcheck_cli.check.each_dtype.{place}", lambda *_, v=value: v)
        (checked,) = examine(Asked().request(replace(TASK, dtypes=list(dtypes))))
        return checked

    return check


def test_signatures_add_up(examined: Callable[..., Checked]) -> None:
    def steps(argument: str, earlier: Sequence[Failure]) -> Iterator[GradientOutcome]:
        yield GradientOutcome(checked=True, moves=True, points=4)
        yield GradientOutcome(findings=(NOTE,) if argument == "y" else ())

    checked = examined(steps)
    assert (checked.gradient.verdict, checked.gradient.points) == (Verdict.CORRECT, 8)
    assert checked.findings == [NOTE]


def test_what_was_found_until_time_was_up_is_kept(examined: Callable[..., Checked]) -> None:
    def steps(argument: str, earlier: Sequence[Failure]) -> Iterator[GradientOutcome]:
        yield GradientOutcome(
            checked=True, moves=True, points=4, findings=(NOTE,) if argument == "y" else ()
        )
        if argument == "y":
            raise OutOfTime
        yield GradientOutcome(points=1)

    checked = examined(steps)
    assert (checked.gradient.verdict, checked.gradient.points) == (Verdict.INCONCLUSIVE, 9)
    assert checked.findings == [NOTE]
    (item,) = checked.not_covered
    assert (item.what, item.reason) == ("what comes after y: float[]", TOO_LONG)


def test_a_gradient_that_has_no_time_for_its_first_point_is_not_checked(
    examined: Callable[..., Checked],
) -> None:
    def steps(argument: str, earlier: Sequence[Failure]) -> Iterator[GradientOutcome]:
        raise OutOfTime
        yield

    checked = examined(steps)
    assert (checked.gradient.status, checked.gradient.reason) == (Status.UNCHECKED, TOO_LONG)
    assert [(item.what, item.add) for item in checked.not_covered] == [("the whole gradient", None)]


@pytest.mark.parametrize("shows", [False, True])
def test_one_signature_that_is_judged_in_part_is_enough_unless_floats_show_a_fault(
    examined: Callable[..., Checked], monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    asked = []
    monkeypatch.setattr(subjects, "apart_in_floats", lambda request, subject: shows)

    def steps(argument: str, earlier: Sequence[Failure]) -> Iterator[GradientOutcome]:
        asked.append(argument)
        yield GradientOutcome(checked=True, moves=True, points=4, in_part=True)

    left = [(item.what, item.reason) for item in examined(steps).not_covered]
    assert left == ([] if shows else [("y: float[]", subjects._ONE_IS_ENOUGH)])
    assert asked == (["x", "y"] if shows else ["x"])


def test_failures_of_simpler_signatures_are_known_within_a_dtype(
    examined: Callable[..., Checked],
) -> None:
    rounds: list[tuple[str, int]] = []

    def steps(argument: str, earlier: Sequence[Failure]) -> Iterator[GradientOutcome]:
        rounds.append((argument, len(earlier)))
        yield GradientOutcome(checked=True, moves=True, points=1, failures=(mismatch(),))

    examined(steps, ["float32", "float64"])
    assert rounds == [("x", 0), ("y", 1), ("x", 0), ("y", 1)]


def test_reasons_are_told_in_their_order(examined: Callable[..., Checked]) -> None:
    def steps(argument: str, earlier: Sequence[Failure]) -> Iterator[GradientOutcome]:
        yield GradientOutcome(reasons=(f"{argument} is not taken",))

    assert examined(steps).gradient.reason == "x is not taken"


def test_a_gradient_that_is_drawn_is_told_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Measuring along each argument runs user code, which may kill the process."""
    seen: list[bool] = []

    def too_late(request: Any, outcome: GradientOutcome) -> list[Any]:
        seen.append(outcome.checked)
        raise OutOfTime

    judged = [GradientOutcome(checked=True, moves=True, points=1)]
    monkeypatch.setattr("gradcheck_cli.check.gradient.outcomes", lambda *_: judged)
    monkeypatch.setattr("gradcheck_cli.check.gradient.plots", too_late)
    request = Asked().request(replace(TASK, plots=True))
    *before, last = examine(request)
    assert [each.provisional for each in before] == [True]
    assert (last.provisional, last.gradient.plots) == (False, [])
    assert seen == [True]
    assert last.gradient.verdict is Verdict.CORRECT
