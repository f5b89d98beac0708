"""Settings, comments and rule pages: what is read is validated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import SettingsError, UsageError
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.project.comments import Comments
from gradcheck_cli.project.comments import parse as parse_comments
from gradcheck_cli.project.rule_pages import find, matching, rules
from gradcheck_cli.project.settings import load, parse
from tests.conftest import ROOT


def test_all_settings_are_read() -> None:
    settings = parse(
        {"fail-on": "warning", "dtype": "float16", "max-time": 5.0, "points": 8}, "here"
    )
    assert (settings.fail_on, settings.dtype, settings.max_time, settings.points) == ("warning", ["float16"], 5.0, 8)  # fmt: skip


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"fail_on": "error"}, "did you mean `fail-on`"),
        ({"fail-on": "always"}, "fail-on"),
        ({"points": "many"}, "points"),
        ({"dtype": ["float23"]}, "did you mean `float32`"),
        ({"jobs": -1}, "at least 0"),
        ({"reach": -1.0}, "positive"),
        ({"per-file-ignores": {"a.py": ["gradient-mismach"]}}, "did you mean `gradient-mismatch`"),
    ],
)
def test_bad_settings_are_refused_with_the_reason(table: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse(table, "pyproject.toml")


def test_nearest_pyproject_with_settings_wins(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck]\npoints = 7\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    settings, root = load(inner)
    assert (settings.points, root) == (7, tmp_path)


def test_broken_toml_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck\n")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load(tmp_path)


def test_ignore_applies_to_its_line_or_the_next_code() -> None:
    source = (
        "x = 1  # cgcheck: ignore[CG101] -- why\n"
        "# cgcheck: ignore[value-mismatch, CG2] -- because\n\ny = 2\n"
    )
    found = parse_comments(source)
    assert [(i.applies_to, i.rules, i.reason) for i in found.ignores] == [
        (1, ("CG101",), "why"),
        (4, ("value-mismatch", "CG2"), "because"),
    ]
    assert not found.malformed


def test_ignore_above_decorators_is_for_what_they_decorate() -> None:
    source = (
        "class A:\n"
        "    # cgcheck: ignore[CG101] -- why\n"
        "    @decorated(\n        1\n    )\n    @again\n    def f(x):\n        pass\n"
    )
    (ignore,) = parse_comments(source).ignores
    assert (ignore.line, ignore.applies_to) == (2, 7)


def test_ignore_at_a_product_of_matrices_stays_there() -> None:
    source = (
        "y = (\n    a\n    @ b  # cgcheck: ignore[CG101] -- why\n)\n"
        "z = (\n    a\n    # cgcheck: ignore[CG102] -- why\n    @ b\n)\n"
        "@made  # cgcheck: ignore[CG103] -- why\ndef f(x):\n    pass\n"
    )
    assert [i.applies_to for i in parse_comments(source).ignores] == [3, 8, 10]


@pytest.mark.parametrize(
    "comment",
    [
        "# cgcheck: ignore",
        "# cgcheck: ignore[]  -- x",
        "# cgcheck: ignore[CG101]",
        "# cgcheck: ignore[gradient-mismach] -- x",
        "# cgcheck: ingore[a] -- x",
        "# cgcheck expect(straight-through)",
        "# cgcheck ignore[CG101] -- x",
    ],
)
def test_malformed_directives_are_told(comment: str) -> None:
    found = parse_comments(f"x = 1  {comment}\n")
    assert (len(found.ignores), len(found.malformed)) == (0, 1)


def test_directives_inside_strings_are_not_comments() -> None:
    assert parse_comments('x = "# cgcheck: ignore[a] -- b"\n') == Comments()


@pytest.mark.parametrize("name", list(rules()))
def test_every_page_is_whole(name: str) -> None:
    rule = rules()[name]
    assert re.fullmatch(r"CG\d{3}", rule.code)
    assert rule.summary
    assert rule.help
    assert max(map(len, rule.body.splitlines())) <= 100


def test_codes_are_unique() -> None:
    codes = [rule.code for rule in rules().values()]
    assert len(codes) == len(set(codes))


def test_rules_are_found_by_name_code_prefix_and_family() -> None:
    assert find("CG101").name == "gradient-mismatch"
    assert matching("CG2") == matching("stability")
    assert len(matching("all")) == len(rules())
    with pytest.raises(UsageError, match="did you mean"):
        find("gradient-mismath")


def test_every_rule_is_raised_somewhere() -> None:
    """A page without code behind it would be a promise that nobody keeps."""
    code = "".join(p.read_text() for p in (ROOT / "gradcheck_cli").rglob("*.py"))
    named = [
        name for name, rule in rules().items() if not rule.is_static
    ]  # the others are patterns
    assert [name for name in named if f'"{name}"' not in code] == []


def test_severities_are_ordered() -> None:
    assert Severity.NOTE.rank < Severity.WARNING.rank < Severity.ERROR.rank


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"memory-limit": "3GB"}, "`memory-limit` has to be a whole number (MiB that each worker may take), and is text"),
        ({"select": "nan"}, "`select` has to be a list, and is text"),
        ({"fail-on": "errors"}, "`fail-on` has to be one of error, never, note, warning"),
        ({"max-time": []}, "`max-time` has to be a number or nothing, and is a list"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused_in_plain_words(
    table: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        parse(table, "pyproject.toml")
    assert str(refused.value) == f"pyproject.toml: [tool.cgcheck] {said}"
