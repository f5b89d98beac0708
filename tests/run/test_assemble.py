"""A report from what the workers sent: totals, numbers of findings, verdicts under suppressions."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gradcheck_cli.contract.report import (
    Input,
    NotCovered,
    Severity,
    Status,
    Suppressor,
    Verdict,
)
from gradcheck_cli.contract.worker import AskedPoint, Checked
from gradcheck_cli.project.comments import WHOLE_FILE, Ignore
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.renumbered import narrowed
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding, note

WRONG = checked(finding(), verdict=Verdict.WRONG)
COMMENT = Ignore(3, 3, ("gradient-mismatch",), "known")


def a_file(*gradients: Checked, **changes: Any) -> File:
    return File("a.py", gradients=list(gradients), **changes)


def test_the_summary_counts_what_is_in_the_report() -> None:
    left = NotCovered.whole("h", "no inputs")
    part = NotCovered(gradient="f", law="context", what="under vmap", reason="it has no batch")
    file = a_file(
        checked(finding(), finding("imprecise-gradient", severity=Severity.WARNING), note()),
        checked(name="g"), not_covered=[left, part], versions={"jax": "1.2"},
    )  # fmt: skip
    report = assemble([file, File("b.py")], Settings())
    s = report.summary
    assert (s.files, s.gradients, s.checked, s.unchecked) == (2, 3, 2, 1)
    assert (s.errors, s.warnings, s.notes, s.exit_code) == (1, 1, 1, 1)
    assert (report.tool.jax, report.tool.torch) == ("1.2", None)
    assert report.not_covered == [replace(item, path="a.py") for item in (left, part)]


def test_findings_and_gradients_are_numbered_across_files() -> None:
    broken = finding("import-failed", gradient=None)
    files = [a_file(findings=[broken]), a_file(WRONG), a_file(checked(), WRONG)]
    report = assemble(files, Settings())
    assert [f.gradient_index for f in report.findings] == [None, 0, 2]
    assert [g.findings for g in report.gradients] == [[1], [], [2]]


def test_what_is_deselected_is_not_shown_and_still_counts_for_the_verdict() -> None:
    report = assemble([a_file(WRONG)], Settings(select=["stability"]))
    assert (report.findings, report.gradients[0].findings) == ([], [])
    assert report.gradients[0].verdict is Verdict.WRONG
    assert report.summary.exit_code == 0


def test_what_is_suppressed_with_a_reason_is_intended() -> None:
    report = assemble([a_file(WRONG, ignores=[COMMENT])], Settings())
    assert report.findings == []
    assert report.gradients[0].verdict is Verdict.INTENDED


def test_a_suppression_does_not_hide_what_it_does_not_name() -> None:
    both = checked(finding(), finding("non-finite-gradient"), verdict=Verdict.WRONG)
    report = assemble([a_file(both, ignores=[COMMENT])], Settings())
    assert [f.rule for f in report.findings] == ["non-finite-gradient"]
    assert report.gradients[0].verdict is Verdict.UNSTABLE


def test_a_comment_that_suppresses_nothing_is_a_finding_of_its_file() -> None:
    report = assemble([a_file(checked(), ignores=[COMMENT])], Settings())
    assert [(f.rule, f.path, f.line) for f in report.findings] == [("unused-ignore", "a.py", 3)]


def test_ignores_of_the_settings_are_never_unused() -> None:
    ignored = Ignore(0, WHOLE_FILE, ("gradient-mismatch",), "the settings")
    assert assemble([a_file(checked(), ignores=[ignored])], Settings()).findings == []


def test_equal_findings_of_two_backends_stand_once_and_belong_to_both() -> None:
    both = [
        checked(finding(), verdict=Verdict.WRONG, framework="keras", backend=backend)
        for backend in ("jax", "torch")
    ]
    report = assemble([a_file(*both)], Settings())
    (only,) = report.findings
    assert (only.gradient_index, only.backends) == (0, ["jax", "torch"])
    assert [g.findings for g in report.gradients] == [[0], [0]]
    assert report.summary.errors == 1


def test_a_point_for_an_argument_that_nobody_has_is_a_finding() -> None:
    x = Input(path="x", dtype="float32", shape=[], domain="", source="a test")
    report = assemble([a_file(checked(inputs=[x]))], Settings(), [AskedPoint({"y": [1.0]})])
    assert [f.rule for f in report.findings] == ["unknown-argument"]
    assert "(there are x)" in report.findings[0].message


def test_durations_are_those_of_files_and_of_laws_and_only_when_asked() -> None:
    timed = replace(checked(qualname="f"), seconds={"formula": 0.12345})
    file = a_file(timed, seconds=2.0)
    assert assemble([file], Settings()).durations is None
    shown = assemble([file], Settings(), durations=True).durations
    assert shown == {"a.py": 2.0, "a.py:f: formula": 0.123}


def test_one_finding_alone_keeps_its_gradient_and_its_totals() -> None:
    wanted = finding(fingerprint="wanted")
    file = a_file(checked(finding(fingerprint="other")), checked(wanted, name="g"))
    report = narrowed(assemble([file], Settings()), "wanted")
    assert [f.fingerprint for f in report.findings] == ["wanted"]
    assert [(g.name, g.findings) for g in report.gradients] == [("g", [0])]
    assert (report.findings[0].gradient_index, report.summary.errors) == (0, 1)
    assert report.gradients[0].status is Status.CHECKED


def test_findings_that_are_ignored_leave_a_trace() -> None:
    checked_ = checked(finding(), note(), verdict=Verdict.WRONG)
    report = assemble([a_file(checked_)], Settings(ignore=["gradient-mismatch"]))
    assert report.gradients[0].ignored == 1
    assert assemble([a_file(checked_)], Settings()).gradients[0].ignored == 0


def test_what_two_backends_share_is_suppressed_once_with_where_it_is_said() -> None:
    shared = finding()
    twice = [
        checked(shared, verdict=Verdict.WRONG, framework="keras", backend=backend)
        for backend in ("jax", "torch")
    ]
    report = assemble([a_file(*twice, ignores=[COMMENT])], Settings())
    (quiet,) = report.suppressed
    assert (quiet.by, quiet.line, quiet.reason) == (Suppressor.COMMENT, 3, "known")
    of_settings = Ignore(0, WHOLE_FILE, ("gradient-mismatch",), "the settings")
    (quiet,) = assemble([a_file(WRONG, ignores=[of_settings])], Settings()).suppressed
    assert (quiet.by, quiet.line, quiet.reason) == (Suppressor.SETTINGS, None, None)
    unselected = Settings(ignore=["gradient-mismatch"])
    assert assemble([a_file(WRONG, ignores=[COMMENT])], unselected).suppressed == []
