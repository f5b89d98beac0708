"""What is found at axes that are longer than anything states: the formula counts there, the floats do not.

A product of seven numbers overflows where one of three does not, and nobody may take any so long.
"""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.infer.richer import is_longer
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.laws.finite import FINITE
from gradcheck_cli.judge.laws.precision import PRECISION
from gradcheck_cli.project.rule_pages import find

_OF_FLOATS = (FINITE.name, PRECISION.name)


def of_its_formula(signature: Signature, step: GradientOutcome) -> GradientOutcome:
    """What a step adds; at a longer signature without what is about floats."""
    if not is_longer(signature):
        return step
    return replace(
        step,
        findings=tuple(f for f in step.findings if not find(f.rule).about_floats),
        failures=tuple(f for f in step.failures if not find(f.rule).about_floats),
        laws=tuple(law for law in step.laws if law.law not in _OF_FLOATS),
    )
