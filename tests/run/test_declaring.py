"""Comments for what looks meant."""

from __future__ import annotations

from pathlib import Path

from gradcheck_cli.contract.report import Finding, Report, Severity, Verdict
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.declaring import declaring, questions
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

SOURCE = """import jax

@jax.custom_vjp
def f(x):
    return x.round()
"""
SURROGATE = finding("undeclared-surrogate", line=4, severity=Severity.WARNING)
DEVIATION = finding(
    "undeclared-deviation", line=4, severity=Severity.WARNING, expect="expect(scaled=0.25)"
)


def report(*findings: Finding, verdict: Verdict = Verdict.INTENDED) -> Report:
    of_f = checked(*findings, verdict=verdict, line=4)
    return assemble([File("a.py", gradients=[of_f])], Settings())


def written(of: Report, folder: Path, source: str = SOURCE) -> str | None:
    (folder / "a.py").write_text(source)
    changes = list(declaring(of, folder))
    assert len(changes) <= 1
    return changes[0].after if changes else None


def test_a_surrogate_is_declared_above_its_decorators(tmp_path: Path) -> None:
    after = written(report(SURROGATE), tmp_path)
    assert after == SOURCE.replace("@jax", "# cgcheck: expect(surrogate)\n@jax")


def test_what_is_declared_already_is_left_as_it_is(tmp_path: Path) -> None:
    declared = SOURCE.replace("def f(x):", "def f(x):  # cgcheck: expect(straight-through)")
    assert written(report(SURROGATE), tmp_path, declared) is None


def test_what_is_wrong_as_well_is_not_declared(tmp_path: Path) -> None:
    assert written(report(SURROGATE, verdict=Verdict.WRONG), tmp_path) is None


def test_another_deviation_is_a_question(tmp_path: Path) -> None:
    asked = report(DEVIATION)
    assert written(asked, tmp_path) is None
    assert [question.expect for question in questions(asked)] == ["expect(scaled=0.25)"]
    assert list(questions(report(SURROGATE))) == []
