"""Functions that do not move at the sizes tried, and that take no step: a z-score of two numbers is ±1."""

from __future__ import annotations

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.reals.decisions import decides
from gradcheck_cli.subject.protocol import Subject


def is_flat(subject: Subject, outcome: GradientOutcome) -> bool:
    """Was the rule called a surrogate of a step, where the function has none?"""
    steps = any(f.rule == RuleName.UNDECLARED_SURROGATE for f in outcome.failures)
    primal = subject.traces().primal if steps else None
    return primal is not None and not decides(primal)
