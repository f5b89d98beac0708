"""Reports without what a baseline knows."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.contract.report import Report, Suppressor, Verdict
from gradcheck_cli.project.baseline import Baseline, Sought
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report.closing import closing
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.known import Room, without_known
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding


def report_of(*names: str, rule: str = "gradient-mismatch") -> Report:
    """A report on a gradient with findings of these fingerprints."""
    findings = [finding(rule, fingerprint=name) for name in names]
    wrong = checked(*findings, verdict=Verdict.WRONG)
    return assemble([File("a.py", gradients=[checked(qualname="g"), wrong])], Settings())


def test_what_is_known_is_counted_and_fails_nothing() -> None:
    report = report_of("a", "b")
    left = without_known(
        report, Room.of(Baseline().updated(report.findings, Sought({"a.py"}))), Settings()
    )
    assert (left.findings, left.summary.exit_code, left.summary.known) == ([], 0, 2)
    assert left.gradients[1].ignored == 2
    assert [item.by for item in left.suppressed] == [Suppressor.BASELINE] * 2
    assert left.gradients[1].verdict is Verdict.WRONG, "it is known, and no less wrong"
    assert closing(left).endswith("2 known findings not shown.")


def test_what_is_new_is_shown_with_its_gradient() -> None:
    known = Baseline().updated(report_of("a").findings, Sought({"a.py"}))
    left = without_known(report_of("a", "b", "a"), Room.of(known), Settings())
    assert [f.fingerprint for f in left.findings] == ["b", "a"], "the second of a kind is new"
    assert left.gradients[1].findings == [0, 1]
    assert (left.summary.exit_code, left.summary.errors, left.summary.known) == (1, 2, 1)


def test_what_could_not_be_checked_is_no_less_open() -> None:
    report = report_of("a")
    open_ = replace(report, summary=replace(report.summary, exit_code=2))
    known = Baseline().updated(report.findings, Sought({"a.py"}))
    assert without_known(open_, Room.of(known), Settings()).summary.exit_code == 2
