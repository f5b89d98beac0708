"""Rules that are wrong only at numbers which a quantity does not have by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = '''import jax
import jax.numpy as jnp


@jax.custom_jvp
def sink(NAME, time):
    """TEXT"""
    return PRIMAL * time


@sink.defjvp
def sink_jvp(primals, tangents):
    x, time = primals
    dx, dt = tangents
    rest = jnp.abs(1 - x)
    return sink(x, time), FACTOR * rest / (1 + rest**2) * time * dx + jnp.log1p(rest**2) * dt
'''
PLAIN = "jnp.log1p(jnp.square(1 - {}))"


@pytest.mark.parametrize(
    ("name", "text", "primal", "factor", "verdict"),
    [
        ("porosity", "How fast it sinks.", PLAIN, "-2", "correct"),
        ("porosity", "How fast it sinks.", PLAIN, "-3", "wrong"),
        ("offset", "How fast it sinks.", PLAIN, "-2", "wrong"),
        ("porosity", "How fast it sinks, for porosity in [0, 3].", PLAIN, "-2", "wrong"),
        ("porosity", "How fast it sinks; a negative porosity is a loss.", PLAIN, "-2", "wrong"),
        ("strain", "How fast it sinks.", PLAIN, "-2", "wrong"),
        ("porosity", "How fast it sinks.", "jnp.log1p(jnp.square(jnp.maximum({}, 1) - 1 - jnp.minimum({}, 1) + 1))", "-2", "wrong"),
    ],
)  # fmt: skip
def test_numbers_of_no_porosity(
    project: Path, name: str, text: str, primal: str, factor: str, verdict: str
) -> None:
    source = MODEL.replace("NAME", name).replace("TEXT", text)
    source = source.replace("PRIMAL", primal.replace("{}", name)).replace("FACTOR", factor)
    (project / "a.py").write_text(source)
    run = check_json("a.py", cwd=project)
    gradient = run.gradient("sink")
    assert gradient["verdict"] == verdict
    if verdict == "correct":
        told = [f["message"] for f in run.findings("sink") if f["rule"] == "gradient-mismatch"]
        assert [f"`{name}` is outside of 0 to 1" in message for message in told] == [True]
        assert [
            f"`# cgcheck: expect(domain: {name} in [-10, 10])`" in message for message in told
        ] == [True]


def test_the_line_that_it_offers_is_heard(project: Path) -> None:
    source = MODEL.replace("NAME", "porosity").replace("PRIMAL", PLAIN.format("porosity"))
    source = source.replace("FACTOR", "-2")
    comment = "  # cgcheck: expect(domain: porosity in [-10, 10])"
    (project / "a.py").write_text(source.replace("time):", "time):" + comment, 1))
    assert check_json("a.py", cwd=project).gradient("sink")["verdict"] == "wrong"


def test_a_scale_may_be_zero(project: Path) -> None:
    """Gains are learned from 0 on."""
    (project / "a.py").write_text("""import jax
import jax.numpy as jnp


@jax.custom_vjp
def gated(x, scale):
    return scale * jnp.tanh(x)


def fwd(x, scale):
    return gated(x, scale), (gated(x, scale), scale)


def bwd(kept, g):
    y, scale = kept
    bent = y / scale
    return g * scale * (1 - bent**2), jnp.sum(g * bent) + jnp.zeros_like(scale)


gated.defvjp(fwd, bwd)
""")
    run = check_json("a.py", cwd=project)
    assert run.gradient("gated")["verdict"] == "unstable"
    assert all("of which nothing speaks" not in f["message"] for f in run.findings("gated"))
