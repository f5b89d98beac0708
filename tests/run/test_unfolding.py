"""Which files are told when, and that what is told stays true; by hand, no worker ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Report, Severity, Verdict
from gradcheck_cli.contract.worker import Checked, Task
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.session import Session
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.unfolding import Unfolding
from tests.reports import checked, finding, task

TRUSTS = finding("trusts-inner-rule", severity=Severity.NOTE, trusts=["inner"])


def told_of(*files: File) -> tuple[Unfolding, list[list[str]]]:
    """The names of the gradients of each report that is told."""
    told: list[list[str]] = []

    def tell(report: Report) -> None:
        told.append([gradient.name for gradient in report.gradients])

    return Unfolding(files, Settings(), tell), told


def of(path: str, name: str, *findings: Finding, pending: Task | None = None) -> File:
    own = [replace(each, path=path) for each in findings]
    each = checked(*own, name=name, path=path)
    return File(path, gradients=[each], pending=[] if pending is None else [pending])


def test_files_are_told_in_order_as_far_as_they_are_done() -> None:
    waits = of("b.py", "g", pending=task("b.py"))
    unfolding, told = told_of(of("a.py", "f"), waits, of("c.py", "h"))
    unfolding.go_on()
    assert told == [["f"]]
    unfolding.go_on()
    assert told == [["f"]]
    waits.pending = []
    unfolding.go_on()
    assert told == [["f"], ["g", "h"]]
    unfolding.end()
    assert told == [["f"], ["g", "h"]]


def test_what_an_interrupt_leaves_is_told_at_the_end() -> None:
    unfolding, told = told_of(of("a.py", "f"), of("b.py", "g", pending=task("b.py")), of("c.py", "h"))  # fmt: skip
    unfolding.go_on()
    unfolding.end()
    assert told == [["f"], ["g", "h"]]


def test_parts_of_one_file_are_told_together() -> None:
    second = of("a.py", "g", pending=task("a.py"))
    unfolding, told = told_of(of("a.py", "f"), second)
    unfolding.go_on()
    assert told == []
    second.pending = []
    unfolding.go_on()
    assert told == [["f", "g"]]


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.CORRECT])
def test_who_trusts_a_rule_of_another_file_waits_for_it(verdict: Verdict) -> None:
    inner: Checked = checked(name="inner", path="b.py", verdict=verdict)
    reports: list[Report] = []
    files = [of("a.py", "f", TRUSTS), File("b.py", gradients=[inner])]
    unfolding = Unfolding(files, Settings(), reports.append)
    unfolding.go_on()
    assert reports == []
    unfolding.end()
    (report,) = reports
    rule = "inherited-formula" if verdict is Verdict.WRONG else "trusts-inner-rule"
    assert [each.rule for each in report.findings] == [rule]


def test_who_trusts_a_rule_of_its_own_file_does_not_wait() -> None:
    file = of("a.py", "f", TRUSTS)
    file.gradients.append(checked(name="inner", path="a.py", verdict=Verdict.WRONG))
    reports: list[Report] = []
    unfolding = Unfolding([file, of("b.py", "g", pending=task("b.py"))], Settings(), reports.append)
    unfolding.go_on()
    assert [[each.rule for each in report.findings] for report in reports] == [["inherited-formula"]]  # fmt: skip


def test_a_module_waits_for_all_for_its_gradients_may_stand_in_any_file() -> None:
    module = of("package.module", "f")
    module.tasks = [task("package.module", module="package.module")]
    unfolding, told = told_of(module, of("z.py", "g"))
    unfolding.go_on()
    assert told == []
    unfolding.end()
    assert told == [["f", "g"]]


def test_an_interrupt_when_all_is_done_is_one(tmp_path: Path) -> None:
    """As of a pager that is left: nothing is pending any more."""
    (tmp_path / "a.py").write_text("x = 1\n")
    targets = [Target(tmp_path / "a.py", None)]
    raised = iter([KeyboardInterrupt()])

    def tell(report: Report) -> None:
        for interrupt in raised:
            raise interrupt

    result = Session(Settings(), tmp_path, reads=True).run(targets, lambda d, e: None, tell)
    assert result.stopped
    assert result.report.summary.exit_code == 130
