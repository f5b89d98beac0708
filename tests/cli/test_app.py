"""The command line: fast help, default command, errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RIGHT, ROOT, WRONG, cgcheck, cgcheck_process, check_json


def test_help_names_the_commands() -> None:
    run = cgcheck_process("--help")
    assert run.code == 0
    assert all(word in run.out for word in ("check", "explain", "rules", "PATH"))


def test_version() -> None:
    assert cgcheck_process("--version").out.startswith("cgcheck 0.")


def test_check_is_the_default_command(project: Path) -> None:
    (project / "a.py").write_text(RIGHT)
    assert cgcheck("a.py", cwd=project).out == cgcheck("check", "a.py", cwd=project).out


@pytest.mark.parametrize("args", [["--help"], ["check", "--help"], ["rules"], ["explain", "CG101"]])
def test_nothing_heavy_is_imported_before_it_is_needed(args: list[str]) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['cgcheck', *{args!r}]\n"
        "from gradcheck_cli.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'hypothesis', 'flint', 'rich'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "HEAVY []" in done.stderr


def test_a_whole_run_never_imports_jax_in_the_cli(project: Path) -> None:
    (project / "a.py").write_text(RIGHT)
    script = (
        "import sys\n"
        "sys.argv = ['cgcheck', 'a.py']\n"
        "from gradcheck_cli.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'flint', 'hypothesis'} & set(sys.modules)\n"
        "print('LIGHT')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=True
    )
    assert "CORRECT" in done.stdout
    assert "LIGHT" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["no/such/file.py"], "no such file"),
        (["nomodule_x.y"], "neither a path nor a module"),
        (["fixtures/seeds/custom_vpj.py"], "did you mean fixtures/seeds/custom_vjp.py"),
        (["fixtures/seeds", "--select", "gradient-mismach"], "did you mean `gradient-mismatch`"),
        (["fixtures/seeds", "--dtype", "flaot32"], "did you mean `float32`"),
        (["fixtures/seeds", "--at", "x:3"], "write name=number"),
        (["fixtures/seeds", "--output-format", "xml"], "unknown output format"),
        (["fixtures/seeds", "--output-format", "text", "--output-format", "json"], "json:FILE"),
        (["fixtures/seeds", "--points", "0"], "at least 1"),
        (["rules", "--wat"], "No such option"),
    ],
)
def test_usage_errors_are_code_2_and_helpful(args: list[str], said: str) -> None:
    run = cgcheck(*args)
    assert run.code == 2
    assert said in " ".join(run.err.split())
    assert "Traceback" not in run.err


def test_folder_without_python_is_code_2(project: Path) -> None:
    run = cgcheck(".", cwd=project)
    assert run.code == 2
    assert "no Python file" in run.err


def test_several_formats_at_once(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    run = cgcheck(
        "a.py", "--output-format", "json:out.json", "--output-format", "text", cwd=project
    )
    assert "WRONG" in run.out
    assert json.loads((project / "out.json").read_text())["summary"]["errors"] == 1


def test_color_only_when_asked_or_at_a_terminal(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    assert "\x1b[" not in cgcheck("a.py", cwd=project).out
    assert "\x1b[" in cgcheck("a.py", "--color", "always", cwd=project).out
    assert (
        "\x1b["
        not in cgcheck("a.py", "--color", "always", "--output-format", "json", cwd=project).out
    )


def test_explain_shows_the_page_by_name_and_code() -> None:
    by_name, by_code = cgcheck("explain", "gradient-mismatch"), cgcheck("explain", "cg101")
    assert by_name.out == by_code.out
    assert "\nWhy is this bad\n" in by_name.out
    assert cgcheck("explain", "--list").out == cgcheck("rules").out


def test_installed_function_is_checked_by_name() -> None:
    run = check_json("jax.nn:softplus", cwd=ROOT)
    (gradient,) = run.report["gradients"]
    assert (gradient["kind"], gradient["verdict"]) == ("function", "correct")
    assert gradient["path"].startswith("jax/_src/nn")


def test_custom_rule_of_an_installed_module_is_found_by_name() -> None:
    run = check_json("jax.nn:relu")
    assert run.gradient("relu")["kind"] == "custom_jvp"


def test_missing_function_is_said_with_the_nearest() -> None:
    run = check_json("jax.nn:sofplus")
    assert run.code == 2
    assert "sofplus" in run.findings()[0]["message"]
    assert "softplus" in run.findings()[0]["help"]


def test_at_comes_first(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    (found,) = [f for f in check_json("a.py", "--at", "x=42", cwd=project).findings() if f["severity"] == "error"]  # fmt: skip
    assert found["witness"]["inputs"][0]["value"] == 42.0


def test_settings_of_the_nearest_pyproject_count(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    (project / "pyproject.toml").write_text("[tool.cgcheck]\nignore = ['gradient-mismatch']\n")
    assert check_json("a.py", cwd=project).code == 0
    (project / "pyproject.toml").write_text("[tool.cgcheck]\nignor = []\n")
    run = cgcheck("a.py", cwd=project)
    assert run.code == 2
    assert "did you mean `ignore`" in run.err
