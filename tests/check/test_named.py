"""A name leads to what is made in it, wherever it is defined."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each is a whole run

MAKERS = """
import jax
import jax.numpy as jnp


def averaged(argmax_fun, num_samples):
    @jax.custom_jvp
    def forward(x):
        moved = x + 0.1 * jnp.arange(num_samples)[:, None]
        return jnp.mean(jax.vmap(argmax_fun)(moved), axis=0)

    forward.defjvps(lambda t, out, x: 2 * jax.jvp(forward.fun, (x,), (t,))[1])
    return forward


def ruined(connection):
    raise AssertionError("nobody asked for this one")

    @jax.custom_jvp
    def never(x):
        return x
"""


def write(folder: Path) -> None:
    # A neighbour of a framework by name: `jax` is a prefix of it.
    package = folder / "jaxlike"
    package.mkdir()
    (package / "__init__.py").write_text("from jaxlike._src import averaged, ruined\n")
    (package / "_src.py").write_text(MAKERS)


def test_a_factory_that_a_package_shows_is_called_where_it_is_defined(tmp_path: Path) -> None:
    write(tmp_path)
    run = check_json("jaxlike:averaged", cwd=tmp_path)
    (gradient,) = run.report["gradients"]
    assert gradient["qualname"] == "averaged.<locals>.forward"
    assert gradient["path"] == "jaxlike/_src.py"
    assert gradient["verdict"] == "inconclusive"  # nobody knows which function is meant
    assert all(f["reproduce"].startswith("cgcheck jaxlike:averaged") for f in run.findings())


def test_what_is_not_named_is_not_called(tmp_path: Path) -> None:
    write(tmp_path)
    report = check_json("jaxlike/_src.py:averaged", cwd=tmp_path).report
    assert report["summary"]["checked"] == 1
    assert {each["gradient"] for each in report["not_covered"]} == {"averaged.<locals>.forward"}


def test_a_class_leads_to_what_its_methods_make() -> None:
    run = check_json("fixtures/wrong/inputs.py:Tversky")
    (gradient,) = run.report["gradients"]
    assert gradient["qualname"] == "Tversky.loss.<locals>.tversky"
    settings = {i["path"] for i in gradient["inputs"] if i["dtype"] == "fixed"}
    assert settings == {"alpha", "beta", "smooth"}


TWINS = {
    "jax": """
import jax
import jax.numpy as jnp


def scaled_by(factor, slope):
    @jax.custom_vjp
    def scaled(x):
        return factor * jnp.sin(x)

    scaled.defvjp(lambda x: (scaled(x), x), lambda x, ct: (slope * ct * jnp.cos(x),))
    return scaled


double = scaled_by(2.0, 2.0)
triple = jax.jit(scaled_by(3.0, 2.0))
""",
    "torch": """
import torch


def scaled_by(factor, slope):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return factor * torch.sin(x)

        @staticmethod
        def backward(ctx, grad):
            return slope * grad * torch.cos(ctx.saved_tensors[0])

    return Scaled


double, triple = scaled_by(2.0, 2.0), scaled_by(3.0, 2.0)
""",
    "tensorflow": """
import tensorflow as tf


def scaled_by(factor, slope):
    @tf.custom_gradient
    def scaled(x):
        return factor * tf.sin(x), lambda dy: slope * dy * tf.cos(x)

    return scaled


double, triple = scaled_by(2.0, 2.0), scaled_by(3.0, 2.0)
""",
}


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.needs(name)) for name in TWINS]
)
def test_what_a_factory_made_twice_is_judged_twice(tmp_path: Path, framework: str) -> None:
    (tmp_path / "twins.py").write_text(TWINS[framework])
    run = check_json("twins.py", cwd=tmp_path)
    verdicts = {g["qualname"]: g["verdict"] for g in run.report["gradients"]}
    assert verdicts == {"double": "correct", "triple": "wrong"}
    assert run.report["not_covered"] == []
    (one,) = check_json("twins.py:triple", cwd=tmp_path).report["gradients"]
    assert one["verdict"] == "wrong"


MIXED = """
import jax
import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


@jax.custom_jvp
def square(x):
    return x**2


square.defjvps(lambda t, y, x: t * 2 * x)
"""


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "framework"), [("Cube", "torch"), ("square", "jax")])
def test_a_name_is_sought_in_the_framework_that_defines_it(
    tmp_path: Path, name: str, framework: str
) -> None:
    (tmp_path / "mixed.py").write_text(MIXED)
    run = check_json(f"mixed.py:{name}", cwd=tmp_path)
    (gradient,) = run.report["gradients"]
    assert (gradient["framework"], gradient["verdict"]) == (framework, "correct")
    assert (run.report["not_covered"], run.code) == ([], 0)
