"""`cgcheck lint`: files, folders, standard input; nothing is imported, nothing is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import cgcheck

NAIVE = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.log(1 + jnp.exp(x))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck]\n")
    (tmp_path / "naive.py").write_text(NAIVE)
    (tmp_path / "fine.py").write_text("x = 1\n")
    return tmp_path


def test_findings_stand_at_their_expression(folder: Path) -> None:
    run = cgcheck("lint", folder, cwd=folder)
    assert run.code == 1
    assert "error[naive-softplus]" in run.out
    assert "     5 |     return jnp.log(1 + jnp.exp(x))" in run.out
    assert "^" * len("jnp.log(1 + jnp.exp(x))") in run.out
    assert run.out.endswith("2 files linted: 1 error, 0 warnings, 0 notes.\n")


def test_json_is_the_same_contract(folder: Path) -> None:
    run = cgcheck("lint", folder, "--output-format", "json", cwd=folder)
    report = json.loads(run.out)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["code"], finding["path"]) == (
        "naive-softplus",
        "CG501",
        "naive.py",
    )
    assert (finding["line"], finding["column"], finding["end_column"]) == (5, 12, 35)
    assert (report["schema_version"], report["summary"]["files"], report["gradients"]) == (1, 2, [])


@pytest.mark.parametrize("place", ["line", "above", "file"])
def test_a_comment_suppresses(folder: Path, place: str) -> None:
    lines = NAIVE.splitlines()
    if place == "line":
        lines[4] += "  # cgcheck: ignore[naive-softplus] -- small x"
    elif place == "above":
        lines.insert(4, "    # cgcheck: ignore[CG501] -- small")
    else:
        lines.insert(0, "# cgcheck: ignore-file[naive-softplus] -- small")
    (folder / "naive.py").write_text("\n".join(lines) + "\n")
    assert cgcheck("lint", folder, cwd=folder).code == 0


def test_selected_and_failing_as_the_flags_say(folder: Path) -> None:
    assert cgcheck("lint", folder, "--ignore", "naive-softplus", cwd=folder).code == 0
    assert cgcheck("lint", folder, "--select", "naive-expm1", cwd=folder).code == 0
    assert cgcheck("lint", folder, "--fail-on", "never", cwd=folder).code == 0
    for unread in (
        "nowhere.py",
        "naive.py:f",
        "sys",
    ):  # no file, a part of one, a module without a source
        assert cgcheck("lint", unread, cwd=folder).code == 2


def test_what_is_no_python_is_said(folder: Path) -> None:
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "latin.py").write_bytes(b"x = '\xe9'\n")
    run = cgcheck("lint", folder, cwd=folder)
    assert run.code == 2
    assert "error[syntax-error]" in run.out
    assert "error[unreadable-file]" in run.out
    assert "error[naive-softplus]" in run.out


def test_a_comment_that_means_nothing_is_told(folder: Path) -> None:
    (folder / "fine.py").write_text("x = 1  # cgcheck: ignore[naive-softmaks] -- why\n")
    run = cgcheck("lint", folder / "fine.py", cwd=folder)
    assert "warning[malformed-comment]" in run.out or "error[malformed-comment]" in run.out


@pytest.mark.slow
@pytest.mark.parametrize("command", [["lint"], ["check", "--static"]])
def test_nothing_heavy_is_imported_and_nothing_of_the_users_is_run(
    folder: Path, command: list[str]
) -> None:
    """Imported and run is only what is ours: an audit hook sees all that is compiled and executed."""
    (folder / "naive.py").write_text(
        NAIVE + f"\nopen({str(folder / 'was-run')!r}, 'w')\nraise SystemExit(9)\n"
    )
    script = (
        "import sys\n"
        "ran = []\n"
        "sys.addaudithook(lambda event, args: ran.append(str(getattr(args[0], 'co_filename', ''))) "
        "if event == 'exec' else None)\n"
        "from gradcheck_cli.cli.app import app\n"
        "try:\n"
        f"    app([*{command!r}, {str(folder)!r}])\n"
        "except SystemExit as left:\n"
        "    assert left.code == 1, left.code\n"
        "heavy = {'jax', 'numpy', 'torch', 'tensorflow', 'keras', 'flint', 'hypothesis'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        f"assert not [f for f in ran if f.startswith({str(folder)!r})]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)
    assert not (folder / "was-run").exists()


@pytest.mark.slow
def test_standard_input_is_read() -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "gradcheck_cli", "lint", "-"], input=NAIVE, capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert piped.returncode == 1
    assert "<stdin>" in piped.stdout


@pytest.mark.slow
def test_a_difference_of_standard_input_is_shown() -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "gradcheck_cli", "lint", "-", "--diff"], input=NAIVE, capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert piped.returncode == 1
    assert piped.stdout.startswith("--- a/<stdin>\n+++ b/<stdin>\n")
    assert "+    return jax.nn.softplus(x)\n" in piped.stdout


STABLE = "import jax.numpy as jnp\nimport jax\n\n\ndef f(x):\n    return jax.nn.softplus(x)\n"


def test_a_repair_is_written_and_a_second_run_changes_nothing(folder: Path) -> None:
    run = cgcheck("lint", folder, "--fix", cwd=folder)
    assert (run.code, (folder / "naive.py").read_text()) == (0, STABLE)
    assert "1 repaired in 1 of the files" in run.err
    again = cgcheck("lint", folder, "--fix", cwd=folder)
    assert (again.code, (folder / "naive.py").read_text()) == (0, STABLE)


def test_a_difference_is_shown_and_nothing_is_written(folder: Path) -> None:
    run = cgcheck("lint", folder, "--diff", cwd=folder)
    assert (run.code, (folder / "naive.py").read_text()) == (1, NAIVE)
    assert "--- a/naive.py\n+++ b/naive.py\n" in run.out
    assert "-    return jnp.log(1 + jnp.exp(x))\n+    return jax.nn.softplus(x)\n" in run.out


def test_what_is_suppressed_is_not_repaired(folder: Path) -> None:
    kept = NAIVE.replace("(x))\n", "(x))  # cgcheck: ignore[naive-softplus] -- small x\n")
    (folder / "naive.py").write_text(kept)
    cgcheck("lint", folder, "--fix", cwd=folder)
    assert (folder / "naive.py").read_text() == kept


def test_json_carries_the_edits(folder: Path) -> None:
    run = cgcheck("lint", folder, "--output-format", "json", cwd=folder)
    (finding,) = json.loads(run.out)["findings"]
    assert finding["fix_is_safe"]
    assert [(e["line"], e["column"], e["end_column"], e["text"]) for e in finding["edits"]] == [
        (5, 12, 35, "jax.nn.softplus(x)"),
        (2, 1, 1, "import jax\n"),
    ]
