"""Findings that a project has known of since some day."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.contract.report import Finding
from gradcheck_cli.project.baseline import Baseline, Known, Sought, load, save
from tests.reports import finding, note


def found(name: str, path: str = "a.py", rule: str = "gradient-mismatch", line: int = 3) -> Finding:
    return finding(rule, line, path=path, fingerprint=name)


ALL = Sought({"a.py"})


def names(baseline: Baseline) -> list[tuple[str, int]]:
    return [(known.fingerprint, known.count) for known in baseline.findings]


def test_what_is_found_is_known_however_often() -> None:
    baseline = Baseline().updated([found("b"), found("a"), found("a", line=7)], Sought({"a.py"}))
    assert names(baseline) == [("a", 2), ("b", 1)]


def test_notes_and_what_could_not_be_checked_are_never_known() -> None:
    assert (
        Baseline().updated([note(), found("x", rule="import-failed")], Sought({"a.py"})).findings
        == []
    )


def test_reasons_stay_and_so_does_what_was_not_looked_at() -> None:
    reason = Known(path="a.py", gradient="f", rule="gradient-mismatch", fingerprint="a", reason="#12")  # fmt: skip
    gone, elsewhere = (
        Known(path=path, gradient="f", rule="gradient-mismatch", fingerprint=name)
        for path, name in (("a.py", "gone"), ("b.py", "elsewhere"))
    )
    new = Baseline(findings=[reason, gone, elsewhere]).updated([found("a")], Sought({"a.py"}))
    assert new.findings == [reason, elsewhere]


def test_what_is_there_less_often_is_gone() -> None:
    baseline = Baseline().updated(
        [found("a"), found("a"), found("b", "b.py")], Sought({"a.py", "b.py"})
    )
    assert [k.fingerprint for k in baseline.gone([found("a")], Sought({"a.py"}))] == ["a"]
    assert baseline.gone([found("a"), found("a")], Sought({"a.py"})) == []


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    baseline = Baseline().updated([found("a"), found("é", "ü.py")], Sought({"a.py"}))
    save(tmp_path / "known.json", baseline)
    assert load(tmp_path / "known.json") == baseline


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"version": 2}',
        '{"findings": [{"path": "a.py"}]}',
        '{"findingz": []}',
        "\xff",
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "known.json").write_text(text, encoding="latin-1")
    with pytest.raises(SettingsError, match=r"known\.json"):
        load(tmp_path / "known.json")


def test_a_baseline_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--update-baseline"):
        load(tmp_path / "known.json")


def test_what_a_run_shows_is_not_looked_for_where_nothing_runs() -> None:
    ran, read = found("ran"), finding("naive-softplus", fingerprint="read", gradient=None)
    baseline = Baseline().updated([ran, read], Sought({"a.py"}))
    assert [k.fingerprint for k in baseline.gone([], Sought({"a.py"}, static=True))] == ["read"]
    assert names(baseline.updated([], Sought({"a.py"}, static=True))) == [("ran", 1)]


def test_what_a_run_did_not_look_for_stays() -> None:
    baseline = Baseline().updated([found("a"), found("b", rule="non-finite-value")], ALL)
    only_values = Sought({"a.py"}, lambda rule: rule == "non-finite-value")
    assert names(baseline.updated([], only_values)) == [("a", 1)]
    assert baseline.updated([], Sought(set())).findings == baseline.findings


def test_a_file_that_is_gone_takes_its_findings_with_it() -> None:
    baseline = Baseline().updated([found("a")], ALL)
    assert baseline.updated([], Sought(set(), gone={"a.py"})).findings == []
