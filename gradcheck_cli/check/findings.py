"""From what violates the laws to findings: each explained, none twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.check.judgements import Judgements
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.judge.finding import GroundedFinding, make_finding
from gradcheck_cli.judge.nothing_given import as_one, with_comment
from gradcheck_cli.judge.script import written
from gradcheck_cli.measure.failure import Failure, Kind
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.run_alone import with_reruns


def findings(
    request: Request, judgements: Judgements, earlier: Sequence[Failure]
) -> Iterator[GradientOutcome]:
    """A finding for each failure, as soon as it is explained; `earlier` are those of simpler signatures."""
    m = judgements.m
    alone = with_reruns(m, [f.alone for f in judgements.failures if f.alone is not None])
    nonlinear = any(f.rule == RuleName.NONLINEAR_COTANGENT for f in judgements.failures)
    for failure in as_one(judgements.undeclared, m, request.gradient):
        if nonlinear and failure.rule == RuleName.GRADIENT_MISMATCH and not _at_unit(failure, m):
            continue  # the same cause: a cotangent that is not used linearly
        if failure.ground.kind is Kind.FORWARD_MODE and judgements.has_wrong_formula:
            continue  # what the rule is wrong by
        request.progress.doing(Phase.EXPLAINING, failure.rule)
        if not _is_repeated(failure, earlier):
            with request.progress.timing("witnesses, boundaries and causes"):
                offer = with_comment(failure, m)
                grounded = make_finding(offer, alone, request.gradient, request.site)
            yield _outcome(request, failure, grounded)


def _outcome(request: Request, failure: Failure, grounded: GroundedFinding) -> GradientOutcome:
    """A finding with the failure that it was grounded of, and its script if that was asked for."""
    number = grounded.finding.fingerprint
    scripts = {}
    if request.task.script == number:
        style = request.framework.writing
        scripts[number] = written(grounded, request.gradient, request.site, style)
    return GradientOutcome(findings=(grounded.finding,), failures=(failure,), scripts=scripts)


def _is_repeated(failure: Failure, earlier: Sequence[Failure]) -> bool:
    """Was it reported before: the same argument's formula, or the same instability?"""
    return any(_tells_as_much(old, failure) for old in earlier)


def _tells_as_much(old: Failure, new: Failure) -> bool:
    """No argument is approximated whose formula is wrong elsewhere."""
    if new.ground.kind is Kind.APPROXIMATE and old.ground.kind is Kind.FORMULA:
        return old.ground.detail == new.ground.detail
    alike = old.ground == new.ground or new.rule != RuleName.GRADIENT_MISMATCH
    return old.rule == new.rule and old.severity.rank >= new.severity.rank and alike


def _at_unit(failure: Failure, m: Measurements) -> bool:
    """Is the only output scalar and its cotangent 1? Then linearity explains nothing."""
    return m.probes[failure.row].cotangent == BASE and list(m.subject.outputs) == [()]
