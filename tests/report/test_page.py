"""The text report of a run that never was: what it says, in which order, and how wide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gradcheck_cli.contract.report import (
    Adequacy,
    Cause,
    Evidence,
    Input,
    LawResult,
    NotCovered,
    Outcome,
    Profile,
    Report,
    Severity,
    UnseenChange,
    Verdict,
    Witness,
    WitnessInput,
)
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.text.page import render
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding, note

X = WitnessInput(path="x", dtype="float32", shape=[], value=100.0)
WITNESS = Witness(
    inputs=[X], cotangent=1.0, argument="x", index=[], custom=2.0, custom_real="2", auto=3.0,
    truth="3",
)  # fmt: skip
WORDS = "it is two thirds of the truth wherever x is above a number that stands here at length"
WRONG = finding(
    message=WORDS, dtypes=["float32"], witness=WITNESS, column=5, end_column=11,
    cause=Cause(path="a.py", line=4, column=1, expression="2 * ct", text="is the rule"),
    fix="3 * ct " * 20, fingerprint="0123456789abcdef", reproduce='cgcheck a.py:f --at "x=100"',
    profile=Profile(argument="x", at=[-1.0, 0.0, 1.0], bits=[0.0, 12.0, 24.0], full=24.0),
)  # fmt: skip


def shown(*gradients: Checked, folder: Path, verbose: bool = False, **changes: Any) -> str:
    files = [File("a.py", gradients=list(gradients), **changes)]
    report = assemble(files, Settings())
    return render(report, Look(folder, color=False, verbose=verbose, width=80))


def test_every_line_fits_80_columns(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"\n\ndef triple(x): {'y' * 200}\n")
    left = NotCovered(gradient="f", law=None, what="context", reason=WORDS * 3, add="x=f32[n]")
    text = shown(checked(WRONG, verdict=Verdict.WRONG), folder=tmp_path, not_covered=[left])
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_a_finding_is_shown_with_its_line_its_numbers_and_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\n\ndef triple(x):\n    return 3 * x\n")
    text = shown(checked(WRONG, verdict=Verdict.WRONG), folder=tmp_path)
    lines = text.splitlines()
    assert lines[0] == "a.py"
    assert lines[2] == "f  WRONG"
    parts = [
        "error[gradient-mismatch] it is two thirds", "3 | def triple(x):", "|     ^^^^^^", "at x = 100",
        "rule     2", "autodiff 3", "bits  x = ", "line 4: `2 * ct` is the rule", "write 3 * ct",
        'again cgcheck a.py:f --at "x=100"', "id    01234567",
        "1 of 1 gradient checked in 1 file: 1 error, 0 warnings, 0 notes.",
    ]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_colour_is_added_to_the_same_words(tmp_path: Path) -> None:
    report = assemble([File("a.py", gradients=[checked(WRONG)])], Settings())
    plain, colored = (
        render(report, Look(tmp_path, color=c, verbose=False, width=80)) for c in (False, True)
    )
    assert "\x1b[" in colored
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_notes_are_one_line_until_they_are_asked_for(tmp_path: Path) -> None:
    remark = note()
    short = shown(checked(remark), folder=tmp_path)
    assert "1 note (-v)" in short
    assert "it is wrong" not in short
    assert "note[redundant-rule]" in shown(checked(remark), folder=tmp_path, verbose=True)


def test_notes_beside_what_is_not_right_are_told_in_short(tmp_path: Path) -> None:
    wrong = checked(note(), finding(), verdict=Verdict.WRONG)
    assert "note: it is wrong" in shown(wrong, folder=tmp_path)


MISSED = UnseenChange(
    change="the sum over another axis", kind="axis", of="the rule", path=None, line=4, hint=None,
    of_shape=True,
)  # fmt: skip


def in_files(folder: Path, *each: Checked, verbose: bool = False) -> str:
    """The page of a report on a.py, b.py, … with a gradient in each."""
    files = [
        File(
            path,
            gradients=[structs.replace(one, gradient=structs.replace(one.gradient, path=path))],
        )
        for path, one in zip(("a.py", "b.py", "c.py"), each, strict=False)
    ]
    return render(assemble(files, Settings()), Look(folder, verbose=verbose, width=80))


def test_a_file_where_all_is_right_is_one_line_among_others(tmp_path: Path) -> None:
    fine = checked(note(), evidence=Evidence.CERTIFIED)
    page = in_files(tmp_path, fine, checked(finding(), verdict=Verdict.WRONG), fine)
    assert "a.py  1 correct · certified · 1 note (-v)\n\nb.py\n\nf  WRONG" in page
    assert "c.py  1 correct · certified · 1 note (-v)\n\n3 of 3" in page
    assert "f  CORRECT" in in_files(tmp_path, fine, fine, verbose=True)


@pytest.mark.parametrize(
    "doubt",
    [
        {"reason": "its trace gives other values than the call"},
        {"adequacy": Adequacy(shown=3, counted=4, equal=0, forgiven=0, unseen=[MISSED])},
        {"verdict": Verdict.INCONCLUSIVE},
    ],
)
def test_what_is_not_quite_right_is_told_in_full(tmp_path: Path, doubt: dict[str, Any]) -> None:
    page = in_files(tmp_path, checked(), checked(**{"verdict": Verdict.CORRECT, **doubt}))
    assert "a.py  1 correct" in page
    assert "b.py\n\nf  " in page


def test_laws_and_inputs_are_shown_when_asked_for(tmp_path: Path) -> None:
    laws = [LawResult(law="formula", outcome=Outcome.PASS, points=9)]
    one = checked(laws=laws, evidence=Evidence.CERTIFIED, points=9)
    assert "law formula: pass, 9 probes" not in shown(one, folder=tmp_path)
    text = shown(one, folder=tmp_path, verbose=True)
    assert "law formula: pass, 9 probes" in text
    assert "line 3 · custom_vjp · formula right · evidence: certified" in text
    assert text.endswith("1 of 1 gradient checked in 1 file, all certified.\n")


def test_what_another_backend_failed_by_is_said_in_a_line(tmp_path: Path) -> None:
    both = [checked(WRONG, framework="keras", backend=b) for b in ("jax", "torch")]
    text = shown(*both, folder=tmp_path)
    assert text.count("error[gradient-mismatch]") == 1
    assert "f on torch" in text
    assert "  as on jax: gradient-mismatch" in text


@pytest.mark.parametrize(
    ("files", "closing"),
    [
        ([], "There was no file to look at."),
        ([File("a.py"), File("b.py")], "No custom gradients in 2 files."),
        (
            [File("a.py", findings=[finding("import-failed", gradient=None)])],
            "Nothing could be checked in 1 file: 1 error, 0 warnings, 0 notes.",
        ),
        (
            [File("a.py", gradients=[checked()], not_covered=[NotCovered.whole("g", "no inputs")])],
            "1 of 2 gradients checked in 1 file.",
        ),
    ],
)
def test_the_closing_line_says_what_was_checked(
    files: list[File], closing: str, tmp_path: Path
) -> None:
    report: Report = assemble(files, Settings())
    assert render(report, Look(tmp_path, color=False, verbose=False, width=80)).endswith(
        closing + "\n"
    )


def test_what_was_not_covered_stands_with_the_line_to_add(tmp_path: Path) -> None:
    left = NotCovered.whole("g", "no inputs were accepted", add="`# cgcheck: x=f32[n]`")
    text = shown(checked(), folder=tmp_path, not_covered=[left])
    assert "Could not check\n  g: the whole gradient: no inputs were accepted\n" in text
    assert "    to check it, add `# cgcheck: x=f32[n]`" in text


def test_a_gradient_that_was_not_checked_is_not_called_right(tmp_path: Path) -> None:
    warning = finding(severity=Severity.WARNING)
    text = shown(checked(warning, verdict=None), folder=tmp_path)
    assert "f  UNCHECKED" in text


def seen(*unseen: UnseenChange, shown_: int = 41) -> Adequacy:
    return Adequacy(
        shown=shown_, counted=shown_ + len(unseen), equal=3, forgiven=1, unseen=[*unseen]
    )


AXIS = UnseenChange(
    change="sum over axis -1 → axis -2", kind="axis", of="the function", path=None, line=23,
    hint="`# cgcheck: x=f32[5 3]`", of_shape=True,
)  # fmt: skip


def test_what_no_input_would_have_shown_is_told_and_is_not_called_certified(tmp_path: Path) -> None:
    blind = checked(note("blind-inputs"), adequacy=seen(AXIS), evidence=Evidence.CERTIFIED)
    text = " ".join(shown(blind, folder=tmp_path).split())
    assert "41 of 42 small changes would have been seen; not: line 23: sum over axis -1" in text
    assert "(try `# cgcheck: x=f32[5 3]`)" in text
    assert "evidence: certified at the shapes tried" in text
    assert "all certified" not in text
    assert text.count("sum over axis") == 1  # the note says nothing more


def test_what_is_open_is_not_called_certified(tmp_path: Path) -> None:
    open_one = checked(
        note("blind-inputs"), evidence=Evidence.CERTIFIED, verdict=Verdict.INCONCLUSIVE
    )
    assert "all certified" not in shown(open_one, folder=tmp_path)


def test_where_everything_shows_only_verbose_counts_it(tmp_path: Path) -> None:
    fine = checked(adequacy=seen(), evidence=Evidence.CERTIFIED)
    assert "small changes" not in shown(fine, folder=tmp_path)
    assert "all certified" in shown(fine, folder=tmp_path)
    assert "41 of 41 small changes" in shown(fine, folder=tmp_path, verbose=True)


def test_of_many_unseen_changes_two_are_told(tmp_path: Path) -> None:
    text = " ".join(shown(checked(adequacy=seen(AXIS, AXIS, AXIS)), folder=tmp_path).split())
    assert text.count("line 23") == 2
    assert "; and 1 more" in text


def test_the_line_of_the_verdict_names_the_shapes_and_fits(tmp_path: Path) -> None:
    def arrays(count: int) -> list[Input]:
        names = [f"argument_{i}" for i in range(count)]
        return [
            Input(path=n, dtype="float32", shape=[5, 3], domain="", source="test") for n in names
        ]

    assert shown(checked(inputs=arrays(1)), folder=tmp_path).splitlines()[2] == (
        "f  CORRECT at argument_0[5 3]"
    )
    line = shown(checked(inputs=arrays(9)), folder=tmp_path).splitlines()[2]
    assert line.endswith("argument_2[5 3] and 6 more")
    assert len(line) <= 80


def test_what_is_not_certified_says_why(tmp_path: Path) -> None:
    weaker = checked(evidence=Evidence.FLOAT64, reason="its trace gives other values than the call")
    assert "not certified: its trace gives other values than the call" in shown(
        weaker, folder=tmp_path
    )
    certain = checked(evidence=Evidence.CERTIFIED, reason="only at one signature")
    assert "not certified" not in shown(certain, folder=tmp_path)


def test_quiet_pages_tell_only_what_is_not_right(tmp_path: Path) -> None:
    fine, wrong = (
        checked(note(), qualname="fine"),
        checked(WRONG, verdict=Verdict.WRONG, qualname="bad"),
    )
    report = assemble([File("a.py", gradients=[fine, wrong])], Settings())
    text = render(report, Look(tmp_path, quiet=True, width=80))
    assert "fine" not in text
    assert "bad  WRONG" in text
    careless = checked(finding("undeclared-deviation", severity=Severity.WARNING))
    meant = assemble([File("b.py", gradients=[checked(note()), careless])], Settings())
    assert "warning[undeclared-deviation]" in render(meant, Look(tmp_path, quiet=True, width=80))
    assert "2 of 2 gradients checked" in text.splitlines()[-2]


def test_a_warning_beside_a_right_formula_is_told_in_full(tmp_path: Path) -> None:
    careless = checked(finding("approximate-rule", severity=Severity.WARNING))
    page = in_files(tmp_path, checked(), careless)
    assert "b.py\n\nf  CORRECT" in page
    assert "warning[approximate-rule]" in page


def test_the_last_line_says_where_to_start(tmp_path: Path) -> None:
    unstable = checked(finding("non-finite-value", line=7), verdict=Verdict.UNSTABLE)
    wrong = checked(finding(line=19), verdict=Verdict.WRONG)
    page = in_files(tmp_path, unstable, wrong)
    assert page.rstrip().endswith("1 wrong, 1 unstable: start with a.py:19.")
    assert "start with" not in in_files(tmp_path, checked(), checked(note()))


def test_a_formula_that_is_not_judged_has_no_evidence(tmp_path: Path) -> None:
    law = LawResult(law="formula", outcome=Outcome.NOT_COVERED, points=7, reason="made up")
    open_ = checked(verdict=Verdict.INCONCLUSIVE, evidence=Evidence.CERTIFIED, laws=[law])
    page = shown(open_, folder=tmp_path)
    assert "formula not covered" in page
    assert "evidence" not in page
