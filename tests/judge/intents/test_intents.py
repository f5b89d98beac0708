"""Declared deviations in whole runs: by a comment, by the settings, and offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each is a whole run


def test_declared_deviations_are_intended() -> None:
    run = check_json("fixtures/intents/declared.py")
    verdicts = {g["name"]: g["verdict"] for g in run.report["gradients"]}
    intended = {name for name, verdict in verdicts.items() if verdict == "intended"}
    assert intended == {
        "rounded", "spike", "reversed_gradient", "clipped", "frozen", "reversed_by", "reversed_by_a_setting", "projected",
        "basis", "frame", "polar",
    }  # fmt: skip
    assert verdicts["root"] == "correct"
    assert verdicts["twice_rounded"] == "wrong"
    (x,) = run.gradient("root")["inputs"][:1]
    assert float(x["domain"].strip("[]").split(",")[0]) > 0  # a declared domain keeps inputs inside


def test_the_settings_declare_too(project: Path) -> None:
    (project / "a.py").write_text(
        "import jax\nimport jax.numpy as jnp\n\n\n"
        "@jax.custom_gradient\n"
        "def rounded(x):\n"
        "    return jnp.round(x), lambda ct: ct\n"
    )
    (project / "pyproject.toml").write_text(
        "[tool.cgcheck.expects]\nrounded = 'expect(straight-through)'\n"
    )
    run = check_json("a.py", "--fail-on", "warning", cwd=project)
    assert (run.code, run.gradient("rounded")["verdict"]) == (0, "intended")


def test_what_looks_meant_is_offered_with_its_comment() -> None:
    run = check_json("fixtures/wrong/formula.py")
    offers = {
        name: {f["expect"] for f in run.findings(name) if f["severity"] == "error"}
        for name in ("square", "weighted", "clipped", "wave", "rms_norm")
    }
    assert offers == {
        "square": {"expect(scaled=0.5)"},
        "weighted": {"expect(zero: w)"},
        "clipped": {"expect(clipped)"},
        "wave": {None},  # a sign in one of two arguments is no intent
        "rms_norm": {None},
    }


REVERSED = """
import torch


class Reverse(torch.autograd.Function):  # cgcheck: expect(scaled=-alpha)
    @staticmethod
    def forward(ctx, x, alpha: float):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.alpha * grad, None
"""


@pytest.mark.needs("torch")
@pytest.mark.parametrize("alpha", ["alpha: float", "alpha=1.0", "alpha: float = 0.1"])
def test_a_number_that_is_kept_on_the_context_is_a_declared_factor(
    alpha: str, tmp_path: Path
) -> None:
    (tmp_path / "reverse.py").write_text(REVERSED.replace("alpha: float", alpha))
    run = check_json("reverse.py", cwd=tmp_path)
    assert [g["verdict"] for g in run.report["gradients"]] == ["intended"]
    assert run.findings() == []
