"""One custom gradient, from its parameters to its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec.structs import replace

from gradcheck_cli.deadline import OutOfTime
from gradcheck_cli.finding import Site, failed, fingerprint, given_inputs, make_finding, refused
from gradcheck_cli.frameworks.seam import CustomGradient, Framework, Rejected, Subject
from gradcheck_cli.inputs.at import parse_at
from gradcheck_cli.inputs.constants import mined
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.infer.probing import broadcast_refused, probe
from gradcheck_cli.inputs.language import condition
from gradcheck_cli.inputs.language import parse as parse_spec
from gradcheck_cli.inputs.lattice import Points, beyond_reach, make_points
from gradcheck_cli.inputs.spec import Fixed, Hints, Signature
from gradcheck_cli.intentions import parse as parse_intents
from gradcheck_cli.intents.declared import Declarations
from gradcheck_cli.laws import LAWS, Failure, Judgement
from gradcheck_cli.laws.structure import STRUCTURE_LAW
from gradcheck_cli.measure.accuracy import GRADIENTS, VALUES
from gradcheck_cli.measure.engine import Measurements, Probe, measure
from gradcheck_cli.measure.ladder import sources
from gradcheck_cli.measure.part import Part, affordable_points, components, part_of, too_large
from gradcheck_cli.measure.states import KINK, LIMIT, REGULAR, UNDECIDED
from gradcheck_cli.reals.walk import NotCovered as NoRule
from gradcheck_cli.rulebook import find
from gradcheck_cli.verdict import verdict
from gradcheck_cli.words import (
    Checked,
    Evidence,
    Finding,
    Gradient,
    Input,
    LawResult,
    NotCovered,
    Outcome,
    Severity,
    Status,
    Task,
    Verdict,
)

Array = np.ndarray[Any, Any]

_ONE_IS_ENOUGH = "of signatures that are judged in part, one is judged"
_FEW_POINTS = 48  # where each costs dozens of calls
_ARRAY_SHARE = 4  # array signatures get this fraction of the points


@dataclass(slots=True)
class _Notebook:
    """What is gathered while the subjects of one gradient are judged."""

    findings: list[Finding] = field(default_factory=list)
    seen: list[Failure] = field(default_factory=list)
    laws: dict[str, LawResult] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    not_covered: list[NotCovered] = field(default_factory=list)
    points: int = 0
    undecided: int = 0
    weaker: str | None = None
    parts: list[tuple[str, str]] = field(default_factory=list)  # what was left out, and why
    in_part: bool = False
    declared: Declarations | None = None
    late: bool = False
    checked: bool = False
    missing_rule: bool = False
    judging: str = "the inputs"  # the last signature that was begun
    evidence: Evidence = Evidence.CERTIFIED


def examine(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    doing: Callable[..., None],
    calls: Sequence[Signature] = (),
) -> Checked:
    """All dtypes, all signatures that fit, all laws; out of time, what there is until then."""
    book = _Notebook(declared=_declarations(gradient, task, site))
    reasons: list[str] = []
    try:
        _examine(gradient, framework, task, site, doing, book, reasons, calls)
    except OutOfTime:
        book.late = True
        told = f"it took longer than the {task.max_time:g} s that a worker has: raise --max-time"
        if book.checked:
            book.parts.append((f"what comes after {book.judging}", told))
        reasons.insert(0, told)
    return _summed(gradient, framework.device, site, book, reasons)


def shown(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    doing: Callable[..., None],
) -> Checked:
    """The inputs alone, with where they come from."""
    book = _Notebook(declared=_declarations(gradient, task, site))
    doing("finding inputs")
    hints = _with_specs(framework.hints(gradient), gradient, task, site, book)
    probed = probe(gradient, task.dtypes[0], hints)
    for subject in probed.subjects:
        _note_inputs(subject, None, book)
    book.checked = bool(probed.subjects)
    checked = _summed(gradient, framework.device, site, book, [probed.reason])
    return replace(checked, gradient=replace(checked.gradient, verdict=None, evidence=None))


def _examine(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    site: Site,
    doing: Callable[..., None],
    book: _Notebook,
    reasons: list[str],
    calls: Sequence[Signature],
) -> None:
    hints = _with_specs(framework.hints(gradient), gradient, task, site, book)
    hints = dataclasses.replace(hints, calls=list(calls))
    for dtype in task.dtypes:
        book.seen.clear()
        doing("finding inputs")
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
                _judge_subject(subject, gradient, task, site, book, doing)
            except NoRule as error:
                book.missing_rule = True
                reasons.append(f"{subject.signature.describe()}: {error}")
            except Rejected as error:
                reasons.append(f"{subject.signature.describe()}: {error}")
            except Exception as error:
                book.findings.append(failed(gradient, site, subject, error))
                reasons.append(f"{subject.signature.describe()}: cgcheck itself failed")
        if probed.subjects and not any(f.rule == "gradient-structure" for f in book.findings):
            narrow = broadcast_refused(gradient, probed.subjects, dtype)
            if narrow is not None:
                book.findings.append(refused(gradient, site, *narrow, Severity.NOTE, dtype))


def _with_specs(
    hints: Hints, gradient: CustomGradient, task: Task, site: Site, book: _Notebook
) -> Hints:
    """What the user says of the arguments: in a comment on the definition, or in the settings."""
    places = _places(gradient, site)
    declared = book.declared.intents if book.declared is not None else []
    for name, bounds in (condition(d.argument or "") for d in declared if d.name == "domain"):
        hints.domains[name] = Domain(bounds)
    key = next((k for k in places if k in task.inputs), None)
    if key is None:
        return hints
    specs = parse_spec(task.inputs[key])
    known = [p.name for p in gradient.parameters()]
    unknown = [name for name in specs if name not in known]
    if unknown:
        rule = find("unknown-argument")
        message = f"the inputs speak of `{unknown[0]}`; it takes {', '.join(known)}"
        finding = rule.finding(site.path, site.line, message, about=gradient.place.qualname)
        book.findings.append(replace(finding, severity=Severity.WARNING, gradient=site.qualname))
    return dataclasses.replace(hints, specs=specs, spec_source=places[key])


def _places(gradient: CustomGradient, site: Site) -> dict[str, str]:
    """By what something may be said of this gradient: a line of its definition, or its name."""
    lines = range(gradient.place.line, max(site.line, site.header_end) + 1)
    return {str(n): f"the comment for line {n}" for n in lines} | dict.fromkeys(
        (gradient.place.qualname, gradient.name), "the settings"
    )


def _declarations(gradient: CustomGradient, task: Task, site: Site) -> Declarations:
    said = [task.expects[k] for k in _places(gradient, site) if k in task.expects]
    return Declarations([declared for text in said for declared in parse_intents(text)])


def _judge_subject(
    subject: Subject,
    gradient: CustomGradient,
    task: Task,
    site: Site,
    book: _Notebook,
    doing: Callable[..., None],
) -> None:
    book.judging = subject.signature.describe()
    doing(f"tracing at {book.judging}")
    traces = subject.traces()
    fmt = format_of(subject.dtype)
    programs = [p for p in (traces.primal, traces.rule) if p is not None]
    scalar = all(not leaf.shape for leaf in subject.leaves)
    budget = task.points if scalar else max(16, task.points // _ARRAY_SHARE)
    rungs = sources(subject)
    if rungs.evidence is Evidence.FINITE_DIFFERENCE:
        budget = min(budget, _FEW_POINTS)
    budget = affordable_points(subject, budget)
    points = make_points(subject.leaves, fmt, mined(programs), task.reach, budget, task.seed)
    points = parse_at(task.at, subject.leaves, fmt, points)
    doing(f"running at {subject.signature.describe()}")
    probes = [p for law in LAWS for p in law.plan(len(points), subject.outputs)]
    outer = beyond_reach(subject.leaves, fmt, task.reach)
    probes += [Probe(len(points) + i, BASE) for i in range(len(outer))]
    points = points.followed_by(outer)
    if task.alone is not None:
        _one_by_one(subject, points, doing)
    where = subject.signature.describe()
    if too_large(subject, len(probes)):
        subject = _in_part(subject, points, task.seed, book)
        rungs = sources(subject)
    m = measure(
        subject, points, probes, rungs, seed=task.seed, ran=lambda: doing(f"comparing at {where}")
    )
    if not _inside(m).any():
        raise Rejected(f"none of the {m.count} points that were tried lies inside its domain")
    book.checked = True
    book.points += m.count
    book.undecided += _undecided(m)
    book.weaker = book.weaker or m.sources.reason
    if subject.dtype not in book.dtypes:
        book.dtypes.append(subject.dtype)
    _note_inputs(subject, points, book)
    earlier = list(book.seen)
    judgements = []
    for law in LAWS:
        try:
            judgements.append(law.judge(m))
        except Exception as error:  # a bug of ours in one law leaves the others standing
            book.findings.append(failed(gradient, site, subject, error))
    assert book.declared is not None
    nonlinear = any(f.rule == "nonlinear-cotangent" for j in judgements for f in j.failures)
    for judgement in judgements:
        _note_law(judgement, m, book)
    found = [f for judgement in judgements for f in judgement.failures]
    for failure in book.declared.answer(found, m):
        if nonlinear and failure.rule == "gradient-mismatch" and not _at_unit(failure, m):
            continue  # the same cause: a cotangent that is not used linearly
        doing(f"explaining {failure.rule}")
        if not _is_known(failure, earlier):
            book.findings.append(make_finding(failure, m, gradient, site))
            book.seen.append(failure)


def _in_part(subject: Subject, points: Points, seed: int, book: _Notebook) -> Part:
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
        doing(f"running at {subject.signature.describe()}", given_inputs(subject, rows))
        subject.run(rows, ones)


def _is_known(failure: Failure, earlier: Sequence[Failure]) -> bool:
    """The same was found at a simpler signature: the same argument's formula, or the same instability."""
    return any(
        old.rule == failure.rule
        and old.severity.rank >= failure.severity.rank
        and (old.cause == failure.cause or failure.rule != "gradient-mismatch")
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


def _note_inputs(subject: Subject, points: Points | None, book: _Notebook) -> None:
    for name, value in subject.signature.arguments:
        if isinstance(value, Fixed):
            shape = list(getattr(value.value, "shape", ()))
            book.inputs.append(
                Input(path=name, dtype="fixed", shape=shape, domain=value.text, source=value.source)
            )
    arrays = points.leaves if points is not None else [None] * len(subject.leaves)
    for leaf, array in zip(subject.leaves, arrays, strict=True):
        domain = leaf.domain.text if leaf.domain is not None else ""
        if array is not None and array.size:
            domain = f"[{float(array.min()):g}, {float(array.max()):g}]"
        book.inputs.append(
            Input(
                path=leaf.path,
                dtype=subject.dtype,
                shape=list(leaf.shape),
                domain=domain,
                source=leaf.source,
            )
        )


def _note_law(judgement: Judgement, m: Measurements, book: _Notebook) -> None:
    """Outcomes of several signatures add up; the worst stands."""
    order = [Outcome.NOT_APPLICABLE, Outcome.PASS, Outcome.NOT_COVERED, Outcome.FAIL]
    old = book.laws.get(judgement.law)
    evidence = _weaker(judgement.evidence, m.evidence)
    outcome = judgement.outcome
    points = judgement.points
    reason = judgement.reason
    if old is not None:
        points += old.points
        if order.index(old.outcome) >= order.index(outcome):
            outcome, reason = old.outcome, old.reason or reason
    judged = outcome in (Outcome.PASS, Outcome.FAIL)
    if judged:
        book.evidence = _weaker(book.evidence, evidence)
        if old is not None and old.evidence is not None:
            evidence = _weaker(evidence, old.evidence)
    book.laws[judgement.law] = LawResult(
        law=judgement.law,
        outcome=outcome,
        evidence=evidence if judged else None,
        points=points,
        reason=reason,
    )


def _weaker(a: Evidence, b: Evidence) -> Evidence:
    return max(a, b, key=lambda e: e.rank)


def _summed(
    gradient: CustomGradient, device: str, site: Site, book: _Notebook, reasons: Sequence[str]
) -> Checked:
    status = Status.CHECKED if book.checked else Status.UNCHECKED
    reason = book.weaker
    if status is Status.UNCHECKED:
        reason = reasons[0] if reasons else "no inputs were found"
        book.not_covered.append(
            NotCovered(
                gradient=gradient.place.qualname,
                law=None,
                what="the whole gradient",
                reason=reason,
                add=None if book.missing_rule or book.late else _line_to_add(gradient, site),
            )
        )
    for law in book.laws.values():
        if law.outcome is Outcome.NOT_COVERED:
            book.not_covered.append(
                NotCovered(gradient=gradient.place.qualname, law=law.law, what=f"the law {law.law}", reason=law.reason or "")
            )  # fmt: skip
    for what, why in book.parts:
        book.not_covered.append(
            NotCovered(gradient=gradient.place.qualname, law=None, what=what, reason=why)
        )
    if book.undecided:
        book.not_covered.append(
            NotCovered(
                gradient=gradient.place.qualname,
                law=None,
                what=f"{book.undecided} of {book.points} probes",
                reason="the truth there could not be enclosed within the limits of precision and cost",
            )
        )
    book.findings += _unused(gradient, site, book)
    order = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
    loud = any(f.severity is not Severity.NOTE for f in book.findings)
    told = [f for f in book.findings if not (loud and f.rule == "redundant-rule")]
    findings = sorted(told, key=lambda f: (order.index(f.severity), f.code, f.message))
    return Checked(
        gradient=Gradient(
            id=fingerprint("gradient", site, gradient.kind, 0),
            name=gradient.name,
            qualname=gradient.place.qualname,
            path=site.path,
            line=site.line,
            framework=gradient.framework,
            kind=gradient.kind,
            backend=gradient.backend,
            device=device,
            dtypes=book.dtypes,
            status=status,
            reason=reason,
            verdict=_verdict(findings, book) if book.checked else None,
            evidence=book.evidence if book.laws else None,
            inputs=book.inputs,
            points=book.points,
            laws=list(book.laws.values()),
        ),
        findings=findings,
        not_covered=book.not_covered,
    )


def _unused(gradient: CustomGradient, site: Site, book: _Notebook) -> list[Finding]:
    """Declarations that explained nothing, once everything was tried."""
    if book.declared is None or not book.checked or book.late:
        return []
    rule = find("unused-intent")
    return [
        replace(
            rule.finding(
                site.path, site.line, f"`expect({d.text})` explains nothing", about=d.name
            ),
            gradient=gradient.place.qualname,
        )
        for d in book.declared.unused
    ]


def _verdict(findings: Sequence[Finding], book: _Notebook) -> Verdict:
    """A deviation that is declared, and holds its law, is intended."""
    worst = verdict(findings)
    if book.declared is not None and book.declared.used:
        return max(worst, Verdict.INTENDED, key=lambda v: v.rank)
    return worst


def _line_to_add(gradient: CustomGradient, site: Site) -> str:
    """What makes it checkable today: a function of plain arrays around it, checked by its name."""
    names = ", ".join(p.name for p in gradient.parameters()) or "…"
    return (
        f"`def check_{gradient.name}(x): return {gradient.spelling}({names})` with arguments of the right "
        f"shapes made from x, and run cgcheck {site.target}:check_{gradient.name}"
    )
