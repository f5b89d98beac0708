"""Rules that say that an argument gets no gradient: a question for data, an error for what is learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def decayed(rate, NAME):
    """TEXT"""
    return jnp.exp(-rate * NAME)


def fwd(rate, NAME):
    y = decayed(rate, NAME)
    return y, (rate, NAME, y)


def bwd(kept, g):
    rate, NAME, y = kept
    return FIRST, GRADIENT


decayed.defvjp(fwd, bwd)
'''


def judged(
    project: Path, name: str, gradient: str, text: str = "Decay.", first: str = "-g * y * NAME"
) -> tuple[str, set[str]]:
    model = MODEL.replace("FIRST", first).replace("GRADIENT", gradient)
    (project / "a.py").write_text(model.replace("NAME", name).replace("TEXT", text))
    run = check_json("a.py", cwd=project)
    severities = {
        f["rule"]: f["severity"] for f in run.report["findings"] if f["severity"] != "note"
    }
    return run.gradient("decayed")["verdict"], {f"{k} {v}" for k, v in severities.items()}


@pytest.mark.parametrize("gradient", ["None", "jnp.zeros_like(NAME)"])
def test_what_may_be_data_is_asked_about(project: Path, gradient: str) -> None:
    verdict, found = judged(project, "times", gradient)
    assert verdict == "intended"
    assert found == {"undeclared-deviation warning"}


@pytest.mark.parametrize(
    ("name", "text"), [("scale", "Decay."), ("times", "Decay, differentiable in rate and times.")]
)
def test_what_is_learned_is_forgotten(project: Path, name: str, text: str) -> None:
    verdict, _ = judged(project, name, "None", text)
    assert verdict == "wrong"


def test_a_wrong_gradient_beside_it_stays_wrong(project: Path) -> None:
    verdict, found = judged(project, "times", "None", first="-0.9 * g * y * NAME")
    assert verdict == "wrong"
    assert "gradient-mismatch error" in found


def test_zeros_that_are_computed_are_no_word(project: Path) -> None:
    verdict, _ = judged(project, "times", "0.0 * g * y")
    assert verdict == "wrong"
