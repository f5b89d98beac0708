"""Which rung of the ladder (SEMANTICS G) gives the truth of one subject, and which its formula.

Balls where every primitive has a rule over the reals; else float64 autodiff; else differences.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.ball_truth import Reals, Source
from gradcheck_cli.measure.casts import narrowest
from gradcheck_cli.measure.difference_truth import differences
from gradcheck_cli.measure.float64_truth import Wide
from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.rules.unreal import REASONS
from gradcheck_cli.reals.walk import uncovered
from gradcheck_cli.subject.protocol import Subject, Traced
from gradcheck_cli.subject.refusals import Rejected, RuleError

_DRAWS = named(lambda facts: facts.law is Law.DRAW)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where truth and formula come from; `reason` says why not from balls."""

    primal: Source
    rule: Source | None
    digits: int | None = None  # what the truth can be trusted to, if it is not certified
    reason: str | None = None
    seeks: bool | None = None  # is it an iteration with a limit? None: nobody has looked

    @property
    def over_reals(self) -> bool:
        """Do both come from balls?"""
        return self.reason is None

    @property
    def evidence(self) -> Evidence:
        """The weaker evidence of the two sources."""
        each = [s.evidence for s in (self.primal, self.rule) if s is not None]
        return max(each, key=lambda e: e.rank)


def sources(subject: Subject, *, certified: bool = True) -> Sources:
    """The strongest rungs that hold; without `certified`, a walk has failed already."""
    traces = subject.traces()
    held = tuple(leaf.is_discrete for leaf in subject.leaves)
    primal = _walked(traces.primal, held) if certified else None
    rule = _walked(traces.rule, held) if certified else None
    # A plain function whose autodiff could not be traced calls rules of the user's.
    of_rules = subject.has_rule or traces.reason is not None
    if primal is not None and (rule is not None or not of_rules):
        return Sources(primal, rule)
    wide = _wide(subject)
    digits = 0 if wide is None else _digits(wide)
    truth: Source
    if primal is not None:
        truth = primal
    elif wide is not None and wide.differentiable:
        truth = Wide(wide, "auto", digits)
    else:
        widest = wide or subject
        digits = _digits(widest)
        truth = differences(widest, digits)
    if rule is None and traces.rule is not None and not subject.has_rule:
        # A plain function that calls rules of the user's: its gradient is theirs, and no walk was to be had of it.
        called = subject.in_float64(bare=False)
        source = None if called is None else Wide(called, "auto", _known(digits, subject))
        return Sources(truth, source, digits, _why(subject))
    if rule is None and wide is not None and (subject.has_rule or not isinstance(truth, Wide)):
        # What a plain function's gradient rests on is unknown: it is judged as a rule.
        who = "custom" if subject.has_rule else "auto"
        return Sources(truth, Wide(wide, who, _known(digits, subject)), digits, _why(subject))
    return Sources(truth, rule, digits, _why(subject))


def _walked(program: Program | None, held: tuple[bool, ...]) -> Source | None:
    return None if program is None or uncovered(program) else Reals(program, held)


def _wide(subject: Subject) -> Subject | None:
    """The subject in float64, if it takes that and is differentiated there too."""
    wide = None if _draws(subject) else subject.in_float64()
    if wide is None:
        return None
    try:
        wide.traces()
    except (Rejected, RuleError):
        return None
    return wide


def _draws(subject: Traced) -> bool:
    """Does the subject draw random numbers? In float64 these would be others."""
    traces = subject.traces()
    programs = [p for p in (traces.primal, traces.rule) if p is not None]
    return any(name in _DRAWS for p in programs for name in p.primitives())


def _digits(subject: Traced) -> int:
    """Bits of the narrowest float that the program really computes in."""
    fmt = format_of(subject.dtype)
    traces = subject.traces()
    programs = [p for p in (traces.primal, traces.rule) if p is not None]
    narrow = [n.digits for p in programs if (n := narrowest(p, fmt)) is not None]
    return min(narrow, default=fmt.digits)


def _known(digits: int, subject: Traced) -> int:
    """Bits to which a rule's formula is known: what is not traced may compute in the dtype under test, whatever it is given."""
    traced = subject.traces().rule is not None
    return digits if traced else min(digits, format_of(subject.dtype).digits)


def _why(subject: Traced) -> str:
    traces = subject.traces()
    if traces.reason is not None:
        return traces.reason
    names = sorted(
        {name for p in (traces.primal, traces.rule) if p is not None for name in uncovered(p)}
    )
    if names:
        reasons = ", ".join(f"`{n}` ({REASONS.get(n, 'it is not known')})" for n in names)
        return f"no meaning over the reals: {reasons}"
    return "autodiff does not go through the primal"
