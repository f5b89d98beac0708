"""Where a report goes, in which format, and when it is coloured."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.cli.outputs import Outputs, Writing
from gradcheck_cli.cli.terminal import progress
from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.worker import Doing, Phase
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

REPORT = assemble([File("a.py", gradients=[checked(finding())])], Settings())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("formats", "targets"),
    [
        (["text"], [("text", None)]),
        (["json:out.json", "text"], [("json", "out.json"), ("text", None)]),
        (["json:"], [("json", None)]),
        (["json:a:b"], [("json", "a:b")]),
    ],
)
def test_a_format_goes_to_its_file_or_to_standard_output(
    formats: list[str], targets: list[tuple[str, str | None]]
) -> None:
    assert Outputs.parse(formats, "auto", verbose=False).targets == targets


@pytest.mark.parametrize(
    ("formats", "message"),
    [(["xml"], "unknown output format `xml`"), (["text", "json"], "give the others a file")],
)
def test_what_cannot_be_written_is_refused(formats: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Outputs.parse(formats, "auto", verbose=False)


def test_each_format_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    Outputs.parse([f"json:{file}", "text"], "auto", verbose=False).write(REPORT, tmp_path)
    assert json.loads(file.read_text())["summary"]["errors"] == 1
    assert "error[gradient-mismatch]" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    outputs = Outputs.parse([f"json:{tmp_path}/no/out.json"], "auto", verbose=False)
    with pytest.raises(UsageError, match=r"cannot write .*No such file"):
        outputs.write(REPORT, tmp_path)


def test_a_closed_standard_output_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    for name in ("text", "json"):
        Outputs.parse([name], "auto", verbose=False).write(REPORT, tmp_path)


@pytest.mark.parametrize(
    ("color", "terminal", "env", "colored"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colour_is_for_terminals_unless_asked_for(
    color: str, terminal: bool, env: dict[str, str], colored: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    Outputs.parse(["text"], color, verbose=False).write(REPORT, tmp_path)
    assert ("\x1b[" in out.getvalue()) is colored


def test_a_file_is_not_coloured_for_the_terminal_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    file = tmp_path / "out.txt"
    Outputs.parse([f"text:{file}"], "auto", verbose=False).write(REPORT, tmp_path)
    assert "\x1b[" not in file.read_text()


def test_progress_is_one_changing_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    with progress(2) as show:
        show("a.py", Doing(phase=Phase.RUNNING, detail="under jit", gradient="f"))
        show("a.py", None)
    shown = err.getvalue().split("\r\x1b[K")
    assert shown == ["", "[0/2] a.py f running under jit", "[1/2] a.py", ""]


def test_there_is_no_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    with progress(2) as show:
        show("a.py", None)
    assert err.getvalue() == ""


def test_a_report_that_goes_to_files_alone_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    Outputs.parse([f"json:{file}"], "auto", verbose=False).write(REPORT, tmp_path)
    told = capsys.readouterr()
    assert told.out == ""
    assert "1 of 1 gradient checked" in told.err
    assert str(file) in told.err


def test_colour_is_forced_where_the_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    Outputs.parse(["text"], "auto", verbose=False).write(REPORT, tmp_path)
    assert "\x1b[" in capsys.readouterr().out


def test_what_is_told_at_once_stands_before_the_rest_and_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, whole = tmp_path / "out.jsonl", tmp_path / "out.json"
    lines.write_text("of an earlier run")
    targets = [f"json-lines:{lines}", f"json:{whole}", "text"]
    outputs = Outputs.parse(targets, "never", verbose=False)
    writing = Writing(outputs, tmp_path, 1, lambda part: part)
    writing.tell(REPORT)
    first = capsys.readouterr().out
    assert "error[gradient-mismatch]" in first
    assert len(lines.read_text().splitlines()) == 2
    assert not whole.exists()
    writing.end(REPORT)
    rest = capsys.readouterr().out
    assert "gradient-mismatch" not in rest
    assert json.loads(whole.read_text())["summary"]["errors"] == 1
    outputs.write(REPORT, tmp_path)
    assert capsys.readouterr().out == first + rest
    assert [json.loads(line)["type"] for line in lines.read_text().splitlines()] == [
        "gradient",
        "finding",
        "summary",
    ]


def test_what_is_known_is_not_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = replace(REPORT, gradients=[], findings=[])
    outputs = Outputs.parse(["concise"], "never", verbose=False)
    Writing(outputs, tmp_path, 1, lambda part: none).tell(REPORT)
    assert capsys.readouterr().out == ""


def test_a_line_of_progress_makes_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    both = Terminal()
    monkeypatch.setattr(sys, "stderr", both)
    monkeypatch.setattr(sys, "stdout", both)
    writing = Writing(Outputs.parse(["concise"], "never", verbose=False), tmp_path, 1, lambda p: p)
    with progress(1) as show:
        show("a.py", None)
        writing.tell(REPORT)
    assert both.getvalue().split("\r\x1b[K")[:3] == ["", "[1/1] a.py", "a.py:3:1: error[gradient-mismatch] f: it is wrong\n"]  # fmt: skip


def test_a_target_that_is_named_twice_is_one(tmp_path: Path) -> None:
    name = f"json-lines:{tmp_path}/out"
    assert len(Outputs.parse([name, name], "never", verbose=False).targets) == 1
    with pytest.raises(UsageError, match="two formats would be written to"):
        Outputs.parse([name, f"text:{tmp_path}/out"], "never", verbose=False)


class Leaving(io.StringIO):
    """A reader that goes after the first words, as `head` does; or an interrupt that comes then."""

    def __init__(self, raised: type[BaseException]) -> None:
        super().__init__()
        self.raised = raised

    def write(self, text: str) -> int:
        if self.getvalue():
            raised, self.raised = self.raised, OSError
            raise raised
        return super().write(text)


def test_a_reader_who_leaves_takes_no_other_report_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Leaving(BrokenPipeError))
    whole = tmp_path / "out.json"
    outputs = Outputs.parse(["concise", f"json:{whole}"], "never", verbose=False)
    writing = Writing(outputs, tmp_path, 2, lambda part: part)
    writing.tell(REPORT)
    writing.tell(REPORT)
    writing.end(REPORT)
    assert json.loads(whole.read_text())["summary"]["errors"] == 1


def test_what_an_interrupt_kept_from_being_written_is_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Leaving(KeyboardInterrupt)
    monkeypatch.setattr(sys, "stdout", out)
    writing = Writing(Outputs.parse(["concise"], "never", verbose=False), tmp_path, 2, lambda p: p)
    writing.tell(REPORT)
    with pytest.raises(KeyboardInterrupt):
        writing.tell(REPORT)
    later = io.StringIO()
    writing._sinks[None] = later
    writing.end(REPORT)
    assert later.getvalue().count("gradient-mismatch") == 1


def test_without_standard_error_reports_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    Outputs.parse(["concise"], "never", verbose=False).write(REPORT, tmp_path)
    assert "gradient-mismatch" in capsys.readouterr().out
