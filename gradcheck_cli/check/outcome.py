"""The outcome of checking a gradient, or a part of it: outcomes of parts add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gradcheck_cli.adequacy.change import Change
from gradcheck_cli.adequacy.showings import Showings
from gradcheck_cli.contract.report import (
    Evidence,
    Finding,
    Input,
    LawResult,
    Outcome,
    Plot,
    Verdict,
)
from gradcheck_cli.contract.worker import Script
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.project.verdict import verdict
from gradcheck_cli.subject.results import Kernel

JUDGED = (Outcome.PASS, Outcome.FAIL)
_WORSE = (Outcome.NOT_APPLICABLE, Outcome.PASS, Outcome.NOT_COVERED, Outcome.FAIL)


@dataclass(frozen=True, slots=True)
class GradientOutcome:
    """What is known of one gradient until now, or what one step adds to that.

    The sum of nothing is `GradientOutcome()`; whoever is cut short still has what was summed.
    """

    checked: bool = False
    moves: bool = False  # some input changed its values, or has a gradient that is not zero
    in_part: bool = False  # some of the components only
    late: bool = False  # time was up
    in_doubt: bool = False  # what failed rests on a function that was made up
    beyond_inputs: bool = False  # what is missing is no input: no line would help
    last: str = ""  # the signature that was begun last
    weaker: str | None = None  # why the truth is not certified
    points: int = 0
    undecided: int = 0
    dtypes: tuple[str, ...] = ()
    inputs: tuple[tuple[Input, ...], ...] = ()  # of each signature
    kernels: tuple[Kernel, ...] = ()  # that were launched, at all signatures
    one_piece: tuple[int, ...] = ()  # lengths of pieces of which no axis has two
    laws: tuple[LawResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()  # of which the findings were made
    reasons: tuple[str, ...] = ()  # why signatures could not be checked
    left_out: tuple[tuple[str, str], ...] = ()  # what was not looked at, and why
    answered: frozenset[Declared] = frozenset()  # declarations that explain a deviation
    broken: frozenset[Declared] = frozenset()  # declarations that do not hold
    showings: Showings = field(
        default_factory=Showings
    )  # of small changes, at the signatures that were judged
    possible: tuple[tuple[Change, str], ...] = ()  # with the shapes that would show them
    trials: tuple[Trial, ...] = ()  # what a correction must make right
    still: tuple[Signature, ...] = ()  # at which nothing moved
    refused: tuple[tuple[Signature, str], ...] = ()  # that a rule has to take, with the dtype
    scripts: dict[str, Script] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()

    @property
    def called_wrong(self) -> list[Finding]:
        """The findings that say that the rule is wrong."""
        return [finding for finding in self.findings if verdict([finding]) is Verdict.WRONG]

    @property
    def is_wrong(self) -> bool:
        """Do the findings say that the rule is wrong?"""
        return bool(self.called_wrong)

    @property
    def formula_holds(self) -> bool:
        """Was the formula held to the truth wherever it was asked, and is it right?"""
        return self.law("formula") is Outcome.PASS and not self.is_wrong

    def __add__(self, more: GradientOutcome) -> GradientOutcome:
        return GradientOutcome(
            checked=self.checked or more.checked,
            moves=self.moves or more.moves,
            in_part=self.in_part or more.in_part,
            late=self.late or more.late,
            in_doubt=self.in_doubt or more.in_doubt,
            beyond_inputs=self.beyond_inputs or more.beyond_inputs,
            last=more.last or self.last,
            weaker=self.weaker or more.weaker,
            points=self.points + more.points,
            undecided=self.undecided + more.undecided,
            dtypes=tuple(dict.fromkeys((*self.dtypes, *more.dtypes))),
            inputs=self.inputs + more.inputs,
            kernels=self.kernels + more.kernels,
            one_piece=self.one_piece + more.one_piece,
            laws=summed_laws((*self.laws, *more.laws)),
            findings=self.findings + more.findings,
            failures=self.failures + more.failures,
            reasons=self.reasons + more.reasons,
            left_out=self.left_out + more.left_out,
            answered=self.answered | more.answered,
            broken=self.broken | more.broken,
            showings=self.showings + more.showings,
            possible=self.possible + more.possible,
            trials=self.trials + more.trials,
            still=self.still + more.still,
            refused=self.refused + more.refused,
            scripts=self.scripts | more.scripts,
            plots=self.plots + more.plots,
        )

    @property
    def stands_still(self) -> bool:
        """Was it tried, and nothing of it ever changed?"""
        return self.points > 0 and not self.moves

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence of all laws that were judged."""
        return weakest(law.evidence for law in self.laws) or Evidence.CERTIFIED

    def law(self, name: str) -> Outcome | None:
        """The outcome of one law, if it was asked."""
        return next((law.outcome for law in self.laws if law.law == name), None)


def summed_laws(results: Iterable[LawResult]) -> tuple[LawResult, ...]:
    """One result for each law, in the order in which laws were first asked."""
    by_name: dict[str, LawResult] = {}
    for result in results:
        before = by_name.get(result.law)
        by_name[result.law] = result if before is None else _added(before, result)
    return tuple(by_name.values())


def weakest(evidence: Iterable[Evidence | None]) -> Evidence | None:
    """The weakest evidence that there is; laws that were not judged have none."""
    return max((e for e in evidence if e is not None), key=lambda e: e.rank, default=None)


def _added(a: LawResult, b: LawResult) -> LawResult:
    """The worse outcome stands, with its reason; points add up."""
    worse, reason = b.outcome, b.reason
    if _WORSE.index(a.outcome) >= _WORSE.index(b.outcome):
        worse, reason = a.outcome, a.reason or b.reason
    return LawResult(
        law=a.law,
        outcome=worse,
        evidence=weakest((a.evidence, b.evidence)) if worse in JUDGED else None,
        points=a.points + b.points,
        reason=reason,
    )
