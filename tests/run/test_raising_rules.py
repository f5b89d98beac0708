"""A rule that raises: told at its line, unless what it lacks is here or nowhere else to be had."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each is a whole run

JAX = """
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def energy(x):
        return jnp.sum(x * x)

    def _pull(kept, ct):
        twice = 2 * kept
        return (twice @ ct,)

    energy.defvjp(lambda x: (energy(x), x), _pull)

    @jax.custom_vjp
    def mean_over_devices(x):
        return x * 1.0

    mean_over_devices.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (jax.lax.pmean(ct, "d"),))
    """
TORCH = """
    import torch
    import torch.distributed

    class Oops(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("oops")

    class Copied(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            torch.distributed.all_reduce(g)
            return g
    """
TENSORFLOW = """
    import tensorflow as tf

    @tf.custom_gradient
    def double(x):
        def grad(dy):
            return dy * int("two")
        return 2 * x, grad

    @tf.custom_gradient
    def stored(x):
        def grad(dy):
            return dy * float(open("scale.txt").read())
        return 2 * x, grad
    """


@pytest.mark.parametrize(
    ("source", "raising", "line", "lacking", "what"),
    [
        pytest.param(JAX, "energy", 11, "mean_over_devices", "an axis name", id="jax"),
        pytest.param(TORCH, "Oops", 12, "Copied", "a process group", id="torch", marks=pytest.mark.needs("torch")),
        pytest.param(TENSORFLOW, "double", 7, "stored", "the file scale.txt", id="tensorflow", marks=pytest.mark.needs("tensorflow")),
    ],
)  # fmt: skip
def test_raising_is_not_wrong(
    project: Path, source: str, raising: str, line: int, lacking: str, what: str
) -> None:
    (project / "model.py").write_text(textwrap.dedent(source))
    run = check_json("model.py", cwd=project)
    assert run.gradient(raising)["verdict"] == "inconclusive"
    (finding,) = (f for f in run.findings(raising) if f["severity"] == "error")
    assert (finding["rule"], finding["line"]) == ("rule-raises", line)
    assert finding["traceback"][-1].startswith(f"model.py:{line} in ")
    (missing,) = (n for n in run.report["not_covered"] if n["gradient"] == lacking)
    assert f"the rule needs {what}" in missing["reason"]
    assert not run.findings(lacking)


def test_it_is_ignored_by_a_comment_at_the_definition(project: Path) -> None:
    text = textwrap.dedent(JAX).replace(
        "def energy(x):", "def energy(x):  # cgcheck: ignore[rule-raises] -- never trained"
    )
    (project / "model.py").write_text(text)
    run = check_json("model.py:energy", cwd=project)
    assert not run.findings("energy")


KERNEL = """
    import jax
    from jax.experimental import pallas as pl

    def _kernel(x_ref, out_ref):
        out_ref[...] = 2 * x_ref[...]

    @jax.custom_vjp
    def double(x):
        return pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    double.defvjp(lambda x: (double(x), None), lambda _, ct: (2 * ct,))
    """


def test_a_kernel_is_interpreted_where_no_gpu_is(project: Path) -> None:
    (project / "model.py").write_text(textwrap.dedent(KERNEL))
    run = check_json("model.py", cwd=project)
    assert (run.gradient("double")["verdict"], run.gradient("double")["evidence"]) == ("correct", "certified")  # fmt: skip
    assert not run.report["findings"]
    (proviso,) = run.report["not_covered"]
    assert "its kernels are interpreted here" in proviso["reason"]


def test_a_kernel_of_a_grid_that_is_computed_needs_its_gpu(project: Path) -> None:
    grid = "pl.pallas_call(_kernel, grid=(1 + jax.numpy.sum(x > 1e30),), "
    text = textwrap.dedent(KERNEL).replace("pl.pallas_call(_kernel, ", grid)
    (project / "model.py").write_text(text)
    run = check_json("model.py", cwd=project)
    if run.report["gradients"][0]["device"] == "gpu":
        pytest.skip("there is one here")
    assert not run.report["findings"]
    assert "it needs a GPU" in run.report["not_covered"][0]["reason"]
