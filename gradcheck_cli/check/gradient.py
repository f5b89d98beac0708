"""One custom gradient, from its parameters to its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from gradcheck_cli.check.deadline import OutOfTime
from gradcheck_cli.check.outcome import Notebook, note_inputs, note_law, summed
from gradcheck_cli.check.user_says import user_says
from gradcheck_cli.contract.report import LawResult, Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked, Phase, Task
from gradcheck_cli.infer.domains import at_home
from gradcheck_cli.infer.first_points import asked_first, recorded_first
from gradcheck_cli.infer.probing import broadcast_refused, probe
from gradcheck_cli.infer.recalled import recalled
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import Points, beyond_reach, make_points
from gradcheck_cli.inputs.parameters import expanded
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.judge.diagnose.correction import Trial, correction
from gradcheck_cli.judge.finding import make_finding
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.judge.intents.declarations import offered
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.structure import STRUCTURE_LAW
from gradcheck_cli.judge.script import written
from gradcheck_cli.judge.unjudged import failed, refused
from gradcheck_cli.judge.witness import call_inputs
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.measure.engine import measure
from gradcheck_cli.measure.failure import Failure, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.mined_constants import mined
from gradcheck_cli.measure.run_alone import with_reruns
from gradcheck_cli.measure.sampled_subject import (
    Part,
    affordable_points,
    components,
    part_of,
    too_large,
)
from gradcheck_cli.measure.search import searched
from gradcheck_cli.measure.sources import Sources, sources
from gradcheck_cli.measure.states import KINK, LIMIT, REGULAR, UNDECIDED
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.protocol import CustomGradient, Framework, Subject
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.script_style import ScriptStyle
from gradcheck_cli.subject.user_code import UserCodeError

Array = np.ndarray[Any, Any]

_ONE_IS_ENOUGH = "of signatures that are judged in part, one is judged"
_NO_LONGER = "they do not fit its parameters any more: run cgcheck record again"
_CHANGE = "the change that makes it right"
_FEW_POINTS = 48  # where each costs dozens of calls
_ARRAY_SHARE = 4  # array signatures get this fraction of the points


def examine(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    doing: Callable[..., None],
    calls: Sequence[Signature] = (),
) -> Checked:
    """All dtypes, all signatures that fit, all laws; out of time, what there is until then."""
    book = Notebook()
    reasons: list[str] = []
    try:
        with framework.steady():
            _examine(gradient, framework, task, site, doing, book, reasons, calls)
    except OutOfTime:
        book.late = True
        told = _too_long(task)
        if book.checked:
            book.parts.append((f"what comes after {book.judging}", told))
        reasons.insert(0, told)
    return summed(gradient, framework.device, site, book, reasons)


def shown(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    doing: Callable[..., None],
) -> Checked:
    """The inputs alone, with where they come from."""
    book = Notebook()
    doing(Phase.INPUTS)
    hints = _said(framework.hints(gradient), gradient, task, site, book)
    hints = _with_calls(hints, gradient, task, book)
    probed = probe(gradient, task.dtypes[0], hints)
    for subject in probed.subjects:
        note_inputs(subject, None, book)
    book.checked = bool(probed.subjects)
    checked = summed(gradient, framework.device, site, book, [probed.reason])
    return replace(checked, gradient=replace(checked.gradient, verdict=None, evidence=None))


def _examine(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    doing: Callable[..., None],
    book: Notebook,
    reasons: list[str],
    calls: Sequence[Signature],
) -> None:
    hints = _said(framework.hints(gradient), gradient, task, site, book)
    hints = _with_calls(hints, gradient, task, book, calls)
    desk = _Desk(gradient, task, site, book, doing, framework.writing)
    for dtype in task.dtypes:
        book.seen.clear()
        doing(Phase.INPUTS)
        with book.timing("inputs"):
            probed = probe(gradient, dtype, hints)
        if probed.broken is not None:
            book.checked = True
            signature, error = probed.broken
            # With several arguments, the shapes that were made up may be ones that nobody means.
            sure = len(signature.leaves) == 1 or error.certain
            severity = Severity.ERROR if sure else Severity.WARNING
            book.findings.append(refused(gradient, site, signature, error, severity, dtype))
            book.laws[STRUCTURE_LAW] = LawResult(law=STRUCTURE_LAW, outcome=Outcome.FAIL)
        elif probed.misfit is not None:
            book.findings.append(refused(gradient, site, *probed.misfit, Severity.WARNING, dtype))
        if probed.broken is None and not probed.subjects:
            reasons.append(f"{dtype}: {probed.reason}")
        for subject in probed.subjects:
            if book.in_part:
                book.parts.append((subject.signature.describe(), _ONE_IS_ENOUGH))
                continue
            try:
                _judge_subject(desk, subject)
            except NoRealMeaning as error:
                book.missing_rule = True
                reasons.append(f"{subject.signature.describe()}: {error}")
            except (Rejected, UserCodeError) as error:
                reasons.append(f"{subject.signature.describe()}: {error}")
            except Exception as error:
                book.findings.append(failed(gradient, site, subject, error))
                reasons.append(f"{subject.signature.describe()}: cgcheck itself failed")
        if probed.subjects and not any(
            f.rule == RuleName.GRADIENT_STRUCTURE for f in book.findings
        ):
            narrow = broadcast_refused(gradient, probed.subjects, dtype)
            if narrow is not None:
                book.findings.append(refused(gradient, site, *narrow, Severity.NOTE, dtype))
    _correct(desk)


def _said(hints: Hints, gradient: CustomGradient, task: Task, site: Site, book: Notebook) -> Hints:
    """The hints with what the user says; what else that says is kept in the book."""
    statement = user_says(hints, gradient, task, site)
    book.declared = statement.declarations
    book.findings += statement.findings
    return statement.hints


def _correct(desk: _Desk) -> None:
    """The one change that makes a wrong formula right, if there is one."""
    wrong = [
        f for f in desk.book.findings if find(f.rule).correctable and f.severity is Severity.ERROR
    ]
    if wrong:
        desk.doing(Phase.CORRECTING)
        with desk.book.timing(_CHANGE):
            try:
                fix = correction(desk.book.trials, desk.gradient)
            except OutOfTime:  # everything else is judged: only the help is missing
                desk.book.parts.append((_CHANGE, _too_long(desk.task)))
                return
        desk.book.findings = [replace(f, fix=fix) if f in wrong else f for f in desk.book.findings]


def _too_long(task: Task) -> str:
    return f"it took longer than the {task.max_time:g} s that a worker has: raise --max-time"


def _with_calls(
    hints: Hints,
    gradient: CustomGradient,
    task: Task,
    book: Notebook,
    calls: Sequence[Signature] = (),
) -> Hints:
    """Real calls, these and the recorded ones; what the user says of the inputs is stronger."""
    if hints.specs:
        return hints
    kept = task.calls.get(gradient.place.qualname, [])
    each = (recalled(c, expanded(gradient.parameters(), len(c.arguments)), hints) for c in kept)
    fitting = [signature for signature in each if signature is not None]
    if kept and not fitting:
        book.parts.append(("its recorded calls", _NO_LONGER))
    return dataclasses.replace(hints, calls=[*calls, *fitting])


@dataclass(frozen=True, slots=True)
class _Desk:
    """What stays the same while the subjects of one gradient are judged."""

    gradient: CustomGradient
    task: Task
    site: Site
    book: Notebook
    doing: Callable[..., None]
    writing: ScriptStyle


def _judge_subject(desk: _Desk, subject: Subject) -> None:
    task, book = desk.task, desk.book
    with book.timing("traces, floats and the truth"):
        points, m = _tried(desk, subject)
        home = _at_home(desk, m)
        if home is not m.subject:
            points, m = _tried(desk, home)
    if not _inside(m).any():
        raise Rejected(f"none of the {m.count} points that were tried lies inside its domain")
    book.checked = True
    book.weaker = book.weaker or m.sources.reason
    if m.subject.dtype not in book.dtypes:
        book.dtypes.append(m.subject.dtype)
    note_inputs(m.subject, points, book)
    earlier = list(book.seen)
    grave = _judge_measured(desk, m, earlier)
    if task.search and not grave and not m.dear:
        desk.doing(Phase.SEARCHING, f"at {book.judging}")
        hidden = searched(m, task.search, task.reach)
        if hidden is not None:
            found = Points([np.asarray(p)[None] for p in hidden], ["found by searching"])
            probes = [p for law in LAWS for p in law.plan(1, m.subject.outputs)]
            _judge_measured(desk, _measured(desk, m.subject, found, probes, m.sources), earlier)


def _tried(desk: _Desk, subject: Subject) -> tuple[Points, Measurements]:
    """Traced, run and walked at all points of all laws."""
    task, book, doing = desk.task, desk.book, desk.doing
    book.judging = subject.signature.describe()
    doing(Phase.TRACING, f"at {book.judging}")
    traces = subject.traces()
    fmt = format_of(subject.dtype)
    programs = [p for p in (traces.primal, traces.rule) if p is not None]
    scalar = all(not leaf.shape for leaf in subject.leaves)
    budget = task.points if scalar else max(16, task.points // _ARRAY_SHARE)
    rungs = sources(subject)
    if rungs.primal.dear:
        budget = min(budget, _FEW_POINTS)
    budget = affordable_points(subject, budget)
    points = make_points(subject.leaves, fmt, mined(programs), task.reach, budget, task.seed)
    points = recorded_first(subject.leaves, fmt, points)
    points = asked_first(task.at, subject.leaves, fmt, points)
    doing(Phase.RUNNING, f"at {book.judging}")
    probes = [p for law in LAWS for p in law.plan(len(points), subject.outputs)]
    outer = beyond_reach(subject.leaves, fmt, task.reach)
    probes += [Probe(len(points) + i, BASE) for i in range(len(outer))]
    points = points.followed_by(outer)
    if task.alone is not None:
        _one_by_one(subject, points, doing)
    if too_large(subject, len(probes)):
        subject = _in_part(subject, points, task.seed, book)
        rungs = sources(subject)
    return points, _measured(desk, subject, points, probes, rungs)


def _at_home(desk: _Desk, m: Measurements) -> Subject:
    """The same with domains, if it has no value at most of these points; what was run tells."""
    if m.in_part:
        return m.subject
    desk.doing(Phase.RUNNING, f"at {desk.book.judging}")
    rows = m.base_rows
    values = [v[rows] for v in m.floats[m.mode].value]
    return at_home(desk.gradient, m.subject, [p[rows] for p in m.points], values, m.fmt)


def _measured(
    desk: _Desk, subject: Subject, points: Points, probes: Sequence[Probe], rungs: Sources
) -> Measurements:
    where = subject.signature.describe()
    return measure(
        subject, points, probes, rungs, seed=desk.task.seed,
        ran=lambda: desk.doing(Phase.COMPARING, f"at {where}"),
    )  # fmt: skip


def _judge_measured(desk: _Desk, m: Measurements, earlier: Sequence[Failure]) -> bool:
    """All laws; is there an error among what they say?"""
    gradient, site, book = desk.gradient, desk.site, desk.book
    book.points += m.count
    book.undecided += _undecided(m)
    judgements = []
    for law in LAWS:
        try:
            with book.timing(law.name):
                judgements.append(judgement(law, m))
        except Exception as error:  # a bug of ours in one law leaves the others standing
            book.findings.append(failed(gradient, site, m.subject, error))
    assert book.declared is not None
    nonlinear = any(f.rule == RuleName.NONLINEAR_COTANGENT for j in judgements for f in j.failures)
    found = [f for j in judgements for f in j.failures]
    alone = with_reruns(m, [f.alone for f in found if f.alone is not None])
    told = list(book.declared.answer(found, m))
    for each in judgements:
        note_law(_as_declared(each, told), m, book)
    book.trials.append(Trial(m, [f.row for f in told if find(f.rule).correctable]))
    for failure in told:
        if nonlinear and failure.rule == RuleName.GRADIENT_MISMATCH and not _at_unit(failure, m):
            continue  # the same cause: a cotangent that is not used linearly
        desk.doing(Phase.EXPLAINING, failure.rule)
        if not _is_known(failure, earlier):
            with book.timing("witnesses, boundaries and causes"):
                meant = dataclasses.replace(failure, expect=offered(failure, m))
                made = make_finding(meant, alone, gradient, site)
            book.findings.append(made.finding)
            book.seen.append(failure)
            if desk.task.script == made.finding.fingerprint:
                book.scripts[made.finding.fingerprint] = written(made, gradient, site, desk.writing)
    return any(f.severity is Severity.ERROR for f in found)


def _as_declared(judgement: Judgement, told: Sequence[Failure]) -> Judgement:
    """A law of which only declared deviations failed holds."""
    left = [f for f in judgement.failures if f in told and f.severity is not Severity.NOTE]
    if judgement.outcome is not Outcome.FAIL or left:
        return judgement
    doubt = next((f for f in told if f.ground.kind is Kind.DOUBT), None)
    if doubt is not None:
        return dataclasses.replace(judgement, outcome=Outcome.NOT_COVERED, reason=doubt.message)
    return dataclasses.replace(
        judgement, outcome=Outcome.PASS, reason="every deviation is declared"
    )


def _in_part(subject: Subject, points: Points, seed: int, book: Notebook) -> Part:
    """What is judged of a subject that is too large to be judged whole; the book says so."""
    part, how = part_of(subject, points.leaves, seed)
    left, all_ = components(subject) - part.sample.size, components(subject)
    what = f"{left:,} of {all_:,} components at {subject.signature.describe()}"
    book.in_part = True
    if left:
        book.parts.append((what, f"too large to judge whole: {how} were judged"))
    return part


def _one_by_one(subject: Subject, points: Points, doing: Callable[..., None]) -> None:
    """Run each point in a call of its own, and say which before it: one of them kills."""
    ones = [np.ones((1, *shape)) for shape in subject.outputs]
    for i in range(len(points)):
        rows = [leaf[i : i + 1] for leaf in points.leaves]
        doing(Phase.RUNNING, f"at {subject.signature.describe()}", call_inputs(subject, rows))
        subject.run(rows, ones)


def _is_known(failure: Failure, earlier: Sequence[Failure]) -> bool:
    """The same was found at a simpler signature: the same argument's formula, or the same instability."""
    return any(
        old.rule == failure.rule
        and old.severity.rank >= failure.severity.rank
        and (old.ground == failure.ground or failure.rule != RuleName.GRADIENT_MISMATCH)
        for old in earlier
    )


def _at_unit(failure: Failure, m: Measurements) -> bool:
    """Is the only output scalar and its cotangent 1? Then linearity explains nothing."""
    return m.probes[failure.row].cotangent == BASE and list(m.subject.outputs) == [()]


def _inside(m: Measurements) -> Array:
    """Rows at which there is a gradient to judge."""
    states = m.reference.states(GRADIENTS)
    return np.asarray(np.isin(states, (REGULAR, LIMIT, KINK)).any(axis=1))


def _undecided(m: Measurements) -> int:
    states = np.concatenate([m.reference.states(VALUES), m.reference.states(GRADIENTS)], axis=1)
    return int((states == UNDECIDED).any(axis=1).sum())
