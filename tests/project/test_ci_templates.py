"""What CI services take from the repository: it is what their schemas say, and its commands do what they are there for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RIGHT, WRONG

ROOT = Path(__file__).parents[2]
ACTION, COMPONENT = ROOT / "action.yml", ROOT / "templates" / "cgcheck.yml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    return tmp_path


def parsed(path: Path) -> list[Any]:
    import yaml

    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def component(inputs: dict[str, str]) -> dict[str, Any]:
    """The job that the component makes, with these of its inputs and the defaults of the others."""
    import yaml

    spec, _ = parsed(COMPONENT)
    given = {name: each["default"] for name, each in spec["spec"]["inputs"].items()} | inputs
    text = COMPONENT.read_text(encoding="utf-8").partition("\n---\n")[2]
    made = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: given[match[1]], text)
    job: dict[str, Any] = yaml.safe_load(made)["cgcheck"]
    return job


def run(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """As the services do it: by a shell that ends at the first error."""
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=cwd, env={**os.environ, "PATH": scripts, **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def says_the_schema(name: str, file: Path) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", name, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.needs("check_jsonschema")
def test_the_action_is_what_github_takes() -> None:
    assert "ok -- validation done" in says_the_schema("vendor.github-actions", ACTION)


@pytest.mark.needs("check_jsonschema")
def test_the_component_is_what_gitlab_takes(tmp_path: Path) -> None:
    import yaml

    file = tmp_path / "job.yml"
    file.write_text(yaml.safe_dump({"cgcheck": component({})}))
    assert "ok -- validation done" in says_the_schema("vendor.gitlab-ci", file)


@pytest.mark.slow
@pytest.mark.needs("jax")
def test_the_action_marks_the_line_and_writes_a_summary(project: Path) -> None:
    (action,) = parsed(ACTION)
    step = next(s for s in action["runs"]["steps"] if "cgcheck check" in s["run"])
    done = run(
        step["run"], project, PATHS="wrong.py right.py", ARGUMENTS="--order 1", SARIF_FILE="out.sarif",
        GITHUB_STEP_SUMMARY=str(project / "summary.md"),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=wrong.py,line=6,")
    assert "gradient-mismatch" in (project / "summary.md").read_text()
    assert "gradient-mismatch" in (project / "out.sarif").read_text()


@pytest.mark.slow
@pytest.mark.needs("jax")
def test_the_component_leaves_what_a_merge_request_shows(project: Path) -> None:
    (script,) = component({"paths": "wrong.py", "arguments": "--order 1"})["script"]
    done = run(script, project)
    assert done.returncode == 1, done.stderr
    assert "error[gradient-mismatch]" in done.stdout
    assert "gradient-mismatch" in (project / "cgcheck.json").read_text()
    assert "<failure" in (project / "cgcheck.xml").read_text()
