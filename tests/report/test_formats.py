"""The formats that machines and their pages read: the same run in each, whatever stands in its names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gradcheck_cli.cli.check import FORMATS_HELP
from gradcheck_cli.contract.report import (
    Cause,
    Edit,
    NotCovered,
    Report,
    Severity,
    Status,
    Verdict,
    Witness,
    WitnessInput,
)
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report import FORMATS, render
from gradcheck_cli.report.look import Look
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding, gradient, note

HOSTILE = "a|b `c` <script>alert(1)</script>\x1b[31m\x00 \udc80 ]]> %0A::error::x, y: z\nnext"
WITNESS = Witness(
    inputs=[WitnessInput(path="x", dtype="float32", shape=[], value=100.0)], cotangent=1.0,
    argument="x", index=[], custom=2.0, custom_real="2", auto=3.0, truth="3",
)  # fmt: skip
WRONG = finding(
    message="it is 2/3 of the truth", witness=WITNESS, column=5, end_line=3, end_column=11,
    cause=Cause(path="a.py", line=7, column=4, expression="2 * ct", text="is the rule"),
    fix="3 * ct", fix_is_safe=True, edits=[Edit(line=7, column=4, end_line=7, end_column=10, text="3 * ct")],
    fingerprint="0123456789abcdef", reproduce='cgcheck a.py:f --at "x=100"', gradient_line=3,
)  # fmt: skip


def report(*findings: Any, **changes: Any) -> Report:
    of_f = checked(*findings, note(), verdict=Verdict.WRONG)
    file = File("a.py", gradients=[of_f], **changes)
    return assemble([file], Settings())


def unchecked() -> Report:
    whole = NotCovered.whole("g", "its arguments are unknown", "`# cgcheck: x=f32[n]`")
    missing = gradient(
        "g", None, status=Status.UNCHECKED, reason="its arguments are unknown", line=9
    )
    file = File("a.py", gradients=[checked(WRONG, verdict=Verdict.WRONG)], not_covered=[whole])
    whole_report = assemble([file], Settings())
    return Report(
        **{f: getattr(whole_report, f) for f in ("schema_version", "tool", "summary", "findings")},
        gradients=[*whole_report.gradients, missing],
        not_covered=[NotCovered.whole("g", "its arguments are unknown", "`# cgcheck: x=f32[n]`")],
    )


def shown(name: str, of: Report, tmp_path: Any, verbose: bool = False) -> str:
    return render(name, of, Look(tmp_path, verbose=verbose, width=80))


def test_the_help_names_all_formats() -> None:
    assert all(name in FORMATS_HELP for name in FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_no_name_and_no_message_breaks_a_format(name: str, tmp_path: Any) -> None:
    hostile = finding(
        message=HOSTILE, gradient=HOSTILE, help=HOSTILE, reproduce=HOSTILE, witness=WITNESS
    )
    text = shown(name, report(hostile, WRONG), tmp_path, verbose=True)
    text.encode("utf-8", "replace")
    if name in ("json", "sarif", "gitlab"):
        json.loads(text)
    elif name == "json-lines":
        assert [json.loads(line)["type"] for line in text.splitlines()][-1] == "summary"
    elif name == "junit":
        assert ET.fromstring(text).attrib["tests"] == "1"
    elif name == "github":
        assert len([line for line in text.splitlines() if line.startswith("::")]) == 3
        assert "\x1b" not in text
    elif name == "markdown":
        assert "<script>" not in text.replace("`", "")[: text.index("Again")]
        assert "\x1b" not in text


def test_one_line_a_finding_names_its_place(tmp_path: Any) -> None:
    lines = shown("concise", report(WRONG), tmp_path).splitlines()
    assert lines[0] == "a.py:3:5: error[gradient-mismatch] f: it is 2/3 of the truth"
    assert lines[-1].startswith("1 of 1 gradient checked in 1 file: 1 error")
    assert len(shown("concise", report(WRONG), tmp_path, verbose=True).splitlines()) == 3


@pytest.mark.parametrize("name", ["concise", "github", "gitlab", "junit", "markdown", "sarif"])
def test_what_could_not_be_checked_is_told_everywhere(name: str, tmp_path: Any) -> None:
    assert "its arguments are unknown" in shown(name, unchecked(), tmp_path)


def test_what_the_run_did_not_confirm_is_no_annotation(tmp_path: Any) -> None:
    gone = finding("gradient-mismatch", severity=Severity.NOTE, withdrawn_by="f", message="gone")
    assert "gone" not in shown("github", report(gone), tmp_path)


def test_junit_counts_failures_and_what_was_skipped(tmp_path: Any) -> None:
    suites = ET.fromstring(shown("junit", unchecked(), tmp_path))
    assert {k: suites.attrib[k] for k in ("tests", "failures", "skipped")} == {
        "tests": "2", "failures": "1", "skipped": "1",
    }  # fmt: skip
    failure = suites.find(".//failure")
    assert failure is not None
    assert failure.attrib["type"] == "gradient-mismatch"


def test_issues_of_gitlab_have_fingerprints_of_their_own(tmp_path: Any) -> None:
    twice = report(WRONG, finding(message="another", fingerprint="0123456789abcdef"))
    issues = json.loads(shown("gitlab", twice, tmp_path))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 2
    assert issues[0]["severity"] == "critical"


def test_a_comment_never_outgrows_what_a_comment_may_hold(tmp_path: Any) -> None:
    many = [
        finding(message=f"{i} " + "long " * 40, fingerprint=str(i), line=i + 1) for i in range(900)
    ]
    text = shown("markdown", report(*many), tmp_path)
    assert len(text) < 65_000
    assert "900 findings in all" in text


def test_a_summary_is_html_and_keeps_underscores(tmp_path: Any) -> None:
    text = shown("markdown", report(finding(message="rms_norm <b>")), tmp_path)
    assert "rms_norm &lt;b&gt; (a.py:3)</summary>" in text


def test_statistics_count_each_rule_the_most_frequent_first(tmp_path: Path) -> None:
    findings = [finding("non-finite-value"), finding(), finding(line=9), note()]
    report = assemble([File("a.py", gradients=[checked(*findings)])], Settings())
    few, all_ = (render("statistics", report, Look(tmp_path, verbose=v)) for v in (False, True))
    assert [line.split()[-1] for line in few.splitlines()[:-1]] == [
        "gradient-mismatch",
        "non-finite-value",
    ]
    assert few.splitlines()[0].split()[:2] == ["2", "error"]
    assert "redundant-rule" in all_
