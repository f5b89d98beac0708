"""Repairs of a run: written, checked again, put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.report import Edit, Finding, Report, Severity, Verdict
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.change import Change
from gradcheck_cli.run.mending import _lines_meant, mend, repairs, written
from gradcheck_cli.run.repaired_file import RepairedFile
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

SOURCE = "def rule(g):\n    return g * d, g * d\n"
RIGHT = "def rule(g):\n    return g * d, -g * d\n"
SIGN = Edit(line=2, column=19, end_line=2, end_column=20, text="-g")


def report_of(*findings: Finding, verdict: Verdict = Verdict.WRONG, name: str = "f") -> Report:
    gradient = checked(*findings, verdict=verdict, qualname=name)
    return assemble([File("a.py", gradients=[gradient])], Settings())


def wrong(*edits: Edit, safe: bool = True, rule: str = "gradient-mismatch") -> Finding:
    return finding(rule, edits=list(edits), fix_is_safe=safe, fingerprint=rule)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(SOURCE)
    return tmp_path


def test_a_repair_is_made_once_however_many_findings_it_is_for(folder: Path) -> None:
    report = report_of(wrong(SIGN), wrong(SIGN, rule="nonlinear-cotangent"))
    (change,) = repairs(report, folder, unsafe=False)
    assert change.after == RIGHT
    assert len(change.repaired) == 2
    assert (folder / "a.py").read_text() == SOURCE


def test_what_is_not_proved_is_written_only_if_it_is_asked_for(folder: Path) -> None:
    report = report_of(wrong(SIGN, safe=False))
    assert list(repairs(report, folder, unsafe=False)) == []
    assert len(list(repairs(report, folder, unsafe=True))) == 1


def test_a_repair_that_was_refused_is_not_made_again_and_another_one_is(folder: Path) -> None:
    other = replace(SIGN, text="g * -1")
    refused = {written(wrong(SIGN))}
    assert list(repairs(report_of(wrong(SIGN)), folder, unsafe=False, refused=refused)) == []
    assert len(list(repairs(report_of(wrong(other)), folder, unsafe=False, refused=refused))) == 1


def test_what_stands_under_a_comment_that_nobody_could_read_is_left_alone(folder: Path) -> None:
    report = report_of(wrong(SIGN))
    (gradient,) = report.gradients
    for line, changed in ((gradient.line, 0), (gradient.line + 1, 1)):
        unread = replace(finding("malformed-comment"), path=gradient.path, line=line)
        told = replace(report, findings=[*report.findings, unread])
        assert len(list(repairs(told, folder, unsafe=True))) == changed


TWO = """\
@custom_vjp
def f(x):
    return x


def rule(g):
    return g * d, g * d


# above the second
@custom_vjp
def h(x):
    return x
"""


@pytest.mark.parametrize(
    ("line", "left_alone"),
    [(1, "f"), (3, "f"), (4, "h"), (7, "fh"), (10, "h"), (13, "h")],
)
def test_a_comment_inside_a_definition_is_about_that_definition(
    tmp_path: Path, line: int, left_alone: str
) -> None:
    (tmp_path / "a.py").write_text(TWO)
    edits = {name: replace(SIGN, line=at, end_line=at) for name, at in (("f", 7), ("h", 13))}
    gradients = [
        checked(wrong(edits[name]), verdict=Verdict.WRONG, qualname=name, line=at)
        for name, at in (("f", 2), ("h", 12))
    ]
    report = assemble([File("a.py", gradients=gradients)], Settings())
    unread = replace(finding("malformed-comment"), path="a.py", line=line)
    told = replace(report, findings=[*report.findings, unread])
    written = {
        e.line for c in repairs(told, tmp_path, unsafe=True) for f in c.repaired for e in f.edits
    }
    assert written == {e.line for name, e in edits.items() if name not in left_alone}


def test_a_comment_in_a_method_is_about_the_class_that_is_a_gradient() -> None:
    source = "class F(Function):\n    def backward(ctx, g):\n        # here\n        return g\n\n\nclass G(Function):\n    pass\n"
    assert _lines_meant(3, [1, 7], source) == {1}
    assert _lines_meant(3, [2, 7], source) == {2}


@pytest.mark.parametrize(
    "comment", ["    # behind the last statement", "f.defvjp(forward, rule)  # x"]
)
def test_a_comment_that_does_not_stand_alone_is_about_what_is_above_too(
    tmp_path: Path, comment: str
) -> None:
    (tmp_path / "a.py").write_text(f"{SOURCE}{comment}\n")
    report = report_of(wrong(SIGN))
    path, line = report.gradients[0].path, 3
    gradients = [replace(report.gradients[0], line=1)]
    unread = replace(finding("malformed-comment"), path=path, line=line)
    told = replace(report, gradients=gradients, findings=[*report.findings, unread])
    assert list(repairs(told, tmp_path, unsafe=True)) == []


def test_of_two_repairs_of_one_place_the_first_is_made(folder: Path) -> None:
    other = Edit(line=2, column=12, end_line=2, end_column=24, text="0, 0")
    report = report_of(wrong(SIGN), wrong(other, rule="non-finite-gradient"))
    (change,) = repairs(report, folder, unsafe=False)
    assert change.after == RIGHT


def mended(folder: Path, after: Report) -> tuple[list[str], list[str], Report]:
    before = report_of(wrong(SIGN))

    def again(changes: Sequence[Change]) -> Report:
        assert [change.path.read_text() for change in changes] == [RIGHT]
        return after

    changes = list(repairs(before, folder, unsafe=False))
    done = mend(before, changes, again, Settings())
    return [c.display for c in done.kept], [c.display for c in done.put_back], done.report


def test_a_file_that_is_better_stays_repaired(folder: Path) -> None:
    kept, put_back, report = mended(folder, report_of(verdict=Verdict.CORRECT))
    assert (kept, put_back) == (["a.py"], [])
    assert (folder / "a.py").read_text() == RIGHT
    assert [g.verdict for g in report.gradients] == [Verdict.CORRECT]
    assert report.summary.exit_code == 0


@pytest.mark.parametrize(
    "after",
    [
        report_of(wrong()),
        report_of(verdict=Verdict.CORRECT, name="another"),
        report_of(wrong(rule="non-finite-value"), wrong(rule="imprecise-value")),
    ],
    ids=["as-wrong", "gone", "more-findings"],
)
def test_a_file_that_is_no_better_is_put_back(folder: Path, after: Report) -> None:
    kept, put_back, report = mended(folder, after)
    assert (kept, put_back) == ([], ["a.py"])
    assert (folder / "a.py").read_text() == SOURCE
    assert [f.rule for f in report.findings] == ["gradient-mismatch"]


BOTH = "def rule(g):\n    return g * d, g * d\n\n\ndef other(g):\n    return g + d\n"
TIMES = Edit(line=6, column=14, end_line=6, end_column=15, text="*")


@pytest.mark.parametrize("then", [Verdict.WRONG, Verdict.INCONCLUSIVE])
def test_of_two_repairs_the_one_that_does_good_is_made(tmp_path: Path, then: Verdict) -> None:
    """The other changes nothing, or leaves a rule of which nothing is known."""
    (tmp_path / "a.py").write_text(BOTH)

    def report(f: Verdict, h: Verdict) -> Report:
        each = {"f": (f, SIGN), "h": (h, TIMES)}
        gradients = [
            checked(*([wrong(edit)] if v is Verdict.WRONG else []), verdict=v, qualname=name)
            for name, (v, edit) in each.items()
        ]
        return assemble([File("a.py", gradients=gradients)], Settings())

    seen: list[str] = []

    def again(changes: Sequence[Change]) -> Report:
        seen.extend(change.path.read_text() for change in changes)
        return report(Verdict.CORRECT, then if "g * d\n\n\ndef other(g):\n    return g * d" in seen[-1] else Verdict.WRONG)  # fmt: skip

    before = report(Verdict.WRONG, Verdict.WRONG)
    done = mend(before, list(repairs(before, tmp_path, unsafe=False)), again, Settings())
    once = BOTH.replace("g * d, g * d", "g * d, -g * d")
    assert seen == [once.replace("g + d", "g * d"), once]
    assert (tmp_path / "a.py").read_text() == once
    (kept,), (put_back,) = done.kept, done.put_back
    assert [e.text for f in kept.repaired for e in f.edits] == ["-g"]
    assert [e.text for f in put_back.repaired for e in f.edits] == ["*"]
    assert [g.verdict for g in done.report.gradients] == [Verdict.CORRECT, Verdict.WRONG]


def test_an_interrupt_between_puts_all_back(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(BOTH)
    gradients = {
        path: [checked(replace(wrong(SIGN), path=path), path=path, verdict=Verdict.WRONG, qualname="f"), checked(replace(wrong(TIMES), path=path), path=path, verdict=Verdict.WRONG, qualname="h")]
        for path in ("a.py", "b.py")
    }  # fmt: skip
    before = assemble([File(path, gradients=g) for path, g in gradients.items()], Settings())
    good = [checked(path="a.py", qualname=name) for name in "fh"]
    after = assemble([File("a.py", gradients=good), File("b.py", gradients=[checked(path="b.py", qualname="f"), gradients["b.py"][1]])], Settings())  # fmt: skip
    runs = iter([after])

    def again(changes: Sequence[Change]) -> Report:
        report = next(runs, None)
        if report is None:
            raise KeyboardInterrupt
        return report

    with pytest.raises(KeyboardInterrupt):
        mend(before, list(repairs(before, tmp_path, unsafe=False)), again, Settings())
    assert {(tmp_path / name).read_text() for name in ("a.py", "b.py")} == {BOTH}


def test_notes_make_no_file_worse(folder: Path) -> None:
    note = replace(finding("redundant-rule"), severity=Severity.NOTE)
    kept, _, _ = mended(folder, report_of(note, note, verdict=Verdict.CORRECT))
    assert kept == ["a.py"]


def test_what_could_not_be_checked_again_is_put_back(folder: Path) -> None:
    def again(changes: Sequence[Change]) -> Report:
        raise KeyboardInterrupt

    before = report_of(wrong(SIGN))
    with pytest.raises(KeyboardInterrupt):
        mend(before, list(repairs(before, folder, unsafe=False)), again, Settings())
    assert (folder / "a.py").read_text() == SOURCE


def test_what_somebody_changed_meanwhile_is_left_alone_and_told(folder: Path) -> None:
    def again(changes: Sequence[Change]) -> Report:
        (folder / "a.py").write_text("mine\n")
        return report_of(wrong())

    before = report_of(wrong(SIGN))
    done = mend(before, list(repairs(before, folder, unsafe=False)), again, Settings())
    assert [change.display for change in done.changed_meanwhile] == ["a.py"]
    assert (done.kept, done.put_back) == ([], [])
    assert (folder / "a.py").read_text() == "mine\n"


def two(f: Verdict, h: Verdict, *findings: Finding) -> Report:
    gradients = [
        checked(*findings, verdict=f, qualname="f"),
        checked(*([wrong()] if h is Verdict.WRONG else []), verdict=h, qualname="h"),
    ]
    return assemble([File("a.py", gradients=gradients)], Settings())


def test_a_file_that_is_better_by_way_of_a_helper_stays_repaired(tmp_path: Path) -> None:
    """The finding is of one gradient, and what its repair does good another."""
    (tmp_path / "a.py").write_text(SOURCE)
    before = two(Verdict.WRONG, Verdict.WRONG, wrong(SIGN))
    after = two(Verdict.WRONG, Verdict.CORRECT, wrong(SIGN))
    done = mend(before, list(repairs(before, tmp_path, unsafe=False)), lambda _: after, Settings())
    assert [change.display for change in done.kept] == ["a.py"]
    assert (tmp_path / "a.py").read_text() == RIGHT


def test_what_was_better_with_all_repairs_and_is_not_with_fewer_has_them_all(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text(BOTH)
    each = [wrong(SIGN), wrong(TIMES)]

    def report(f: Verdict, h: Verdict) -> Report:
        gradients = [
            checked(*([finding_] if v is Verdict.WRONG else []), verdict=v, qualname=name)
            for name, v, finding_ in (("f", f, each[0]), ("h", h, each[1]))
        ]
        return assemble([File("a.py", gradients=gradients)], Settings())

    before = report(Verdict.WRONG, Verdict.WRONG)
    runs = iter([report(Verdict.CORRECT, Verdict.WRONG), before])
    done = mend(before, list(repairs(before, tmp_path, unsafe=False)), lambda _: next(runs), Settings())  # fmt: skip
    assert [len(change.repaired) for change in done.kept] == [2]
    assert done.put_back == []
    assert "g * d, -g * d" in (tmp_path / "a.py").read_text()


def test_an_interrupt_while_reports_are_compared_puts_all_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: RepairedFile) -> list[Finding]:
        raise KeyboardInterrupt

    monkeypatch.setattr(RepairedFile, "useful", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mended(folder, report_of(verdict=Verdict.CORRECT))
    assert (folder / "a.py").read_text() == SOURCE
