"""Flags and settings are one list: names, defaults, and who is stronger."""

from __future__ import annotations

import inspect
from pathlib import Path

import msgspec
import pytest
from typer.models import OptionInfo

from gradcheck_cli.cli.check import check
from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.project.settings import Settings, load_for, with_flags

NOT_FLAGS = {
    "optional_imports", "per_file_ignores", "memory_limit", "recordings", "expects", "inputs", "references",
}  # fmt: skip


def options() -> dict[str, OptionInfo]:
    """What `cgcheck check` says of each of its options, by the name of its parameter."""
    parameters = inspect.signature(check, eval_str=True).parameters.values()
    each = ((p.name, getattr(p.annotation, "__metadata__", ())) for p in parameters)
    return {n: meta[0] for n, meta in each if meta and isinstance(meta[0], OptionInfo)}


def test_each_setting_is_a_flag_or_one_of_the_few_that_are_not() -> None:
    names = {field.name for field in msgspec.structs.fields(Settings)}
    assert names - set(options()) == NOT_FLAGS


def test_the_help_shows_the_defaults_of_the_settings() -> None:
    shown = {name: option.show_default for name, option in options().items()}
    assert (shown["points"], shown["max_time"]) == ("256", "120")
    assert (shown["reach"], shown["device"]) == ("1e9", "cpu")


def test_flags_that_are_given_are_stronger_than_settings() -> None:
    settings = Settings(points=7, seed=3, strict=True, select=["all"], dtype=["float64"])
    flags = {
        "points": 9, "seed": 0, "strict": False, "select": [], "ignore": ("CG1",), "dtype": None,
        "verbose": True, "paths": ("a.py",),
    }  # fmt: skip
    changed = with_flags(settings, flags, "command line")
    assert changed == msgspec.structs.replace(settings, points=9, seed=0, ignore=["CG1"])


def test_a_flag_that_makes_no_sense_is_refused_with_its_place() -> None:
    with pytest.raises(SettingsError, match="command line: `points` must be at least 1"):
        with_flags(Settings(), {"points": 0}, "command line")


@pytest.mark.parametrize("target", ["model.py", "model.py:f", ""])
def test_settings_are_those_of_the_place_where_the_target_lies(target: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck]\npoints = 5\n")
    (tmp_path / "model.py").touch()
    settings, root = load_for(str(tmp_path / target))
    assert (settings.points, root) == (5, tmp_path.resolve())
