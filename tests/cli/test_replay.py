"""A finding by its id: run again, and as a script that stands alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gradcheck_cli.project.finding_history import Entry, remember
from gradcheck_cli.project.settings import Settings
from tests.conftest import ROOT, cgcheck, check_json

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
    kept = "class Box:\n    pass\n\n\nbox = Box()\nbox.rule = make()\n"
    (project / "rules.py").write_text(f"def make():\n{inner}\n    return cube\n\n\n{kept}")
    env = {"CGCHECK_CACHE_DIR": str(project / "cache")}
    name = _found("rules.py", project, env)
    run = cgcheck("repro", name, cwd=project, env=env)
    assert run.code == 2
    assert "no name in its module leads to it" in run.err


@dataclass(frozen=True)
class Seed:
    """A rule that overflows, by a shared run of its file."""

    file: str
    name: str
    settings: Settings = field(default_factory=Settings)

    def remembered(self, cache: Path) -> str:
        """The id of its error, which that run might have left in the cache."""
        run = check_json(f"fixtures/{self.file}")
        found = next(f for f in run.findings(self.name) if f["severity"] == "error")
        entry = Entry(
            rule=found["rule"], path=found["path"], gradient=found["gradient"],
            message=found["message"], target=f"fixtures/{self.file}:{self.name}",
            settings=self.settings, at=[],
        )  # fmt: skip
        remember({found["fingerprint"]: entry}, ROOT, cache)
        return str(found["fingerprint"])


SEEDS = {
    "jax": Seed("seeds/custom_gradient.py", "log1pexp"),
    "torch": Seed("torch/seeds.py", "Log1pExp"),
    "tensorflow": Seed("tensorflow/seeds.py", "log1pexp"),
    "keras": Seed("keras/seeds.py", "log1pexp", Settings(backend=["tensorflow"])),
}


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.needs(name)) for name in SEEDS]
)
def test_a_script_shows_the_numbers_and_fails_as_a_test(framework: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    name = SEEDS[framework].remembered(cache)
    script = tmp_path / "repro_it.py"
    env = {"CGCHECK_CACHE_DIR": str(cache)}
    assert cgcheck("repro", name, "-o", script, env=env).code == 0
    assert "gradcheck_cli" not in script.read_text()
    shown = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (shown.returncode, "values    inf" in shown.stdout) == (1, True)
    assert "still there: inf instead of" in shown.stderr
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cgcheck", script],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 1
    assert "inf instead of" in tested.stdout
