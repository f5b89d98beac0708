"""A finding by its id: run again, and as a script that stands alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, cgcheck

pytestmark = pytest.mark.slow  # each is a whole run

WRONG = """
import jax


@jax.custom_vjp
def cube(x, y):
    return x**3 * y


cube.defvjp(
    lambda x, y: (cube(x, y), (x, y)), lambda kept, g: (2 * g * kept[0] ** 2 * kept[1], g * kept[0] ** 3)
)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck]\n")
    (tmp_path / "rules.py").write_text(WRONG)
    return tmp_path


def _found(target: str, cwd: Path, env: dict[str, str], *args: str) -> str:
    report = cgcheck(target, "--output-format", "json", *args, cwd=cwd, env=env).report
    return next(f["fingerprint"] for f in report["findings"] if f["severity"] == "error")


def test_a_finding_is_run_again_until_it_is_gone(project: Path) -> None:
    env = {"CGCHECK_CACHE_DIR": str(project / "cache")}
    name = _found("rules.py", project, env)
    again = cgcheck("replay", name[:8], cwd=project, env=env)
    assert again.code == 1
    assert f"id    {name[:8]}" in again.out
    assert "1 error" in again.out
    (project / "rules.py").write_text(WRONG.replace("2 * g", "3 * g"))
    after = cgcheck("replay", name[:8], cwd=project, env=env)
    assert (after.code, after.out) == (0, "gradient-mismatch of cube is gone\n")
    assert cgcheck("repro", name[:8], cwd=project, env=env).code == 2


def test_an_unknown_id_is_said(project: Path) -> None:
    run = cgcheck("replay", "0123", cwd=project, env={"CGCHECK_CACHE_DIR": str(project / "none")})
    assert run.code == 2
    assert "no finding `0123`" in run.err


def test_what_no_name_leads_to_has_no_script(project: Path) -> None:
    inner = "\n".join(f"    {line}" for line in WRONG.strip().splitlines())
    (project / "rules.py").write_text(f"def make():\n{inner}\n    return cube\n\n\nmade = make()\n")
    env = {"CGCHECK_CACHE_DIR": str(project / "cache")}
    name = _found("rules.py", project, env)
    run = cgcheck("repro", name, cwd=project, env=env)
    assert run.code == 2
    assert "no name in its module leads to it" in run.err


SEEDS = {
    "jax": ("fixtures/seeds/custom_gradient.py:log1pexp", ()),
    "torch": ("fixtures/torch/seeds.py:Log1pExp", ()),
    "tensorflow": ("fixtures/tensorflow/seeds.py:log1pexp", ()),
    "keras": ("fixtures/keras/seeds.py:log1pexp", ("--backend", "tensorflow")),
}


@pytest.mark.parametrize("framework", SEEDS)
def test_a_script_shows_the_numbers_and_fails_as_a_test(framework: str, tmp_path: Path) -> None:
    target, args = SEEDS[framework]
    env = {"CGCHECK_CACHE_DIR": str(tmp_path / "cache")}
    name = _found(target, ROOT, env, *args)
    script = tmp_path / "repro_it.py"
    assert cgcheck("repro", name, "-o", script, env=env).code == 0
    text = script.read_text()
    assert "gradcheck_cli" not in text
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert "values    inf" in shown.stdout
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cgcheck", script],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 1
    assert "inf instead of" in tested.stdout
