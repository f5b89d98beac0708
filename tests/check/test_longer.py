"""At axes that are longer than anything states the floats do not count."""

from __future__ import annotations

from gradcheck_cli.check.longer import of_its_formula
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import LawResult, Outcome
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.infer.richer import longer
from gradcheck_cli.inputs.signature import Hints, Leaf, Signature
from gradcheck_cli.project.rule_pages import find

SHORT = Signature((("x", Leaf("x", (3,), "solved")),))
FOUND = GradientOutcome(
    findings=tuple(
        find(rule).finding("a.py", 7, "it fails", about="f")
        for rule in (RuleName.GRADIENT_MISMATCH, RuleName.NON_FINITE_VALUE)
    ),
    laws=tuple(LawResult(law=law, outcome=Outcome.FAIL) for law in ("formula", "finite")),
)


def test_only_the_formula_counts_there() -> None:
    (long,) = longer(SHORT, Hints({}, {}, []))
    heard = of_its_formula(long, FOUND)
    assert [f.rule for f in heard.findings] == [RuleName.GRADIENT_MISMATCH]
    assert [law.law for law in heard.laws] == ["formula"]
    assert of_its_formula(SHORT, FOUND) == FOUND
