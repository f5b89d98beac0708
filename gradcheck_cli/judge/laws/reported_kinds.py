"""By which rule each kind of wrong formula is reported, and how grave it is."""

from __future__ import annotations

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.failure import Kind

REPORTED = {
    Kind.FORMULA: (RuleName.GRADIENT_MISMATCH, Severity.ERROR),
    Kind.DATA: (RuleName.GRADIENT_MISMATCH, Severity.NOTE),
    Kind.FAR: (RuleName.GRADIENT_MISMATCH, Severity.NOTE),
    Kind.APPROXIMATE: (RuleName.APPROXIMATE_RULE, Severity.WARNING),
    Kind.SURROGATE: (RuleName.UNDECLARED_SURROGATE, Severity.WARNING),
    Kind.INCONCLUSIVE: (RuleName.INCONCLUSIVE_GRADIENT, Severity.WARNING),
    Kind.SINGULARITY: (RuleName.SAFE_AT_SINGULARITY, Severity.NOTE),
}
ERRORS = frozenset(kind for kind, (_, severity) in REPORTED.items() if severity is Severity.ERROR)
