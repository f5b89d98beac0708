"""Rules that hand the cotangent on where the function keeps its argument within bounds: meant where the name says `safe`."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import check_json

MODEL = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def NAME(y):
    return jnp.arctanh(jnp.clip(y, -0.999, 0.999))


def fwd(y):
    return NAME(y), jnp.clip(y, -0.999, 0.999)


def bwd(kept, g):
    return (FACTOR * g / (1 - kept * kept),)


NAME.defvjp(fwd, bwd)
"""


def judged(project: Path, name: str, factor: str) -> tuple[str, str]:
    (project / "a.py").write_text(MODEL.replace("NAME", name).replace("FACTOR", factor))
    run = check_json("a.py", cwd=project)
    offers = [f["expect"] for f in run.report["findings"] if f["severity"] == "error"]
    return run.gradient(name)["verdict"], next(iter(offers), "")


def test_the_name_says_safe(project: Path) -> None:
    assert judged(project, "safe_atanh", "1") == ("intended", "")


def test_nothing_says_so(project: Path) -> None:
    assert judged(project, "clamped_atanh", "1") == ("wrong", "expect(straight-through)")


def test_what_is_safe_may_be_wrong(project: Path) -> None:
    assert judged(project, "safe_atanh", "1.1")[0] == "wrong"
