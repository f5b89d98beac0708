"""`cgcheck check --fix`, `--diff` and `--baseline`, from the command line to the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import cgcheck

pytestmark = pytest.mark.slow  # each is a whole run, or two

WRONG = '''"""A rule whose second gradient has the wrong sign, and a naive softplus."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def difference(x, y):
    return x**2 - y


difference.defvjp(lambda x, y: (difference(x, y), x), lambda x, g: (2 * x * g, g))


@jax.custom_vjp
def softplus(x):
    return jnp.log(1 + jnp.exp(x))


def _fwd(x):
    e = jnp.exp(x)
    return jnp.log(1 + e), e


def _bwd(e, g):
    return (g * e / (1 + e),)


softplus.defvjp(_fwd, _bwd)
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck]\n")
    (tmp_path / "model.py").write_text(WRONG)
    return tmp_path


def test_a_finding_stands_at_the_expression_with_its_difference(project: Path) -> None:
    run = cgcheck("model.py", cwd=project)
    line = next(i for i, text in enumerate(WRONG.splitlines(), start=1) if "defvjp(lambda" in text)
    shown = run.out.splitlines()
    place = next(i for i, text in enumerate(shown) if text.startswith(f"{line:>6} | "))
    column = shown[place + 1].index("^")
    assert shown[place][column:].startswith("g))")
    assert any(text.startswith(f"{line:>6} + ") and text.endswith("-g))") for text in shown)


def test_what_would_be_written_is_shown_and_nothing_is_written(project: Path) -> None:
    run = cgcheck("model.py", "--diff", cwd=project)
    assert run.code == 1
    for line in ("-    e = jnp.exp(x)", "+    return jax.nn.softplus(x), x", "+def _bwd(x, g):", "+    return (g * jax.nn.sigmoid(x),)"):  # fmt: skip
        assert f"{line}\n" in run.out
    assert (project / "model.py").read_text() == WRONG


def test_what_is_written_is_right(project: Path) -> None:
    run = cgcheck("model.py", "--fix", cwd=project)
    assert run.code == 0, run.out + run.err
    assert "findings repaired" in run.err
    after = (project / "model.py").read_text()
    assert "(2 * x * g, -g)" in after
    assert cgcheck("model.py", "--diff", cwd=project).out == ""


INSTABLE = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def softplus(x):
    return jnp.log(1 + jnp.exp(x))


def _fwd(x):
    y = softplus(x)
    return y, y


def _bwd(y, g):
    {body}


softplus.defvjp(_fwd, _bwd)
"""


def test_a_rule_that_is_right_but_for_what_it_is_given_stays(project: Path) -> None:
    backward = "return (-g * jnp.expm1(-y) * jnp.where(y < jnp.inf, 1, y),)"
    (project / "model.py").write_text(INSTABLE.format(body=backward))
    run = cgcheck("model.py", "--fix", cwd=project)
    assert run.code == 0, run.out + run.err
    after = (project / "model.py").read_text()
    assert "return jax.nn.softplus(x)" in after
    assert backward in after


def test_what_a_repair_uncovers_is_repaired_as_well(project: Path) -> None:
    (project / "model.py").write_text(INSTABLE.format(body="return (g * (jnp.exp(y) - 1) / jnp.exp(y),)"))  # fmt: skip
    run = cgcheck("model.py", "--fix", cwd=project)
    assert run.code == 0, run.out + run.err
    assert (
        len(re.findall(r"\d findings? repaired", run.err)) == 2
    )  # the function first, then the rule
    after = (project / "model.py").read_text()
    assert "return jax.nn.softplus(x)" in after
    assert "return (g * jax.nn.sigmoid(x),)" in after


def test_a_baseline_lets_only_what_is_new_fail(project: Path) -> None:
    known = ("--baseline", "known.json")
    refused = cgcheck("model.py", *known, cwd=project)
    assert (refused.code, "--update-baseline" in refused.err) == (2, True)
    assert cgcheck("model.py", *known, "--update-baseline", cwd=project).code == 0
    entries = json.loads((project / "known.json").read_text())["findings"]
    assert {entry["gradient"] for entry in entries} == {"difference", "softplus"}
    moved = WRONG.replace("@jax.custom_vjp\ndef diff", "# moved\n\n\n@jax.custom_vjp\ndef diff")
    (project / "model.py").write_text(moved.replace("2 * x * g", "3 * x * g"))
    new = cgcheck("model.py", *known, cwd=project)
    assert new.code == 1
    assert "d/dx" in new.out
    assert "d/dy" not in new.out
    assert "known findings not shown" in " ".join(new.out.split())


def test_a_file_that_keeps_a_baseline_from_being_written_is_named(project: Path) -> None:
    (project / "needs_it.py").write_text("import jax\nimport nowhere_to_be_found\n\nf = jax.custom_vjp(abs)\n")  # fmt: skip
    run = cgcheck(".", "--baseline", "known.json", "--update-baseline", cwd=project)
    assert run.code == 2
    assert "could be checked: needs_it.py (`exclude` it" in " ".join(run.err.split())
    assert not (project / "known.json").exists()
