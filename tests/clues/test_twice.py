"""Where a project differentiates twice, read from its text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.clues.twice import differentiated_twice

JAX = """
import jax
import jax.numpy as jnp
from jax import grad as d

def cube(x): return x ** 3
def energy(x): return jnp.sum(cube(x))
def model(x): return energy(x)
"""
TORCH = """
import torch
class Cube(torch.autograd.Function): ...
cube = Cube.apply
"""
TAPES = """
import tensorflow as tf
def cube(x): return x ** 3
"""


def asked(folder: Path, text: str, name: str = "cube", **others: str) -> str:
    (folder / "ops.py").write_text(text)
    for other, content in others.items():
        (folder / f"{other}.py").write_text(content)
    return differentiated_twice(folder / "ops.py", folder, name)


@pytest.mark.parametrize(
    "call",
    [
        "h = jax.hessian(energy)",
        "h = jax.hessian(model)",
        "h = jax.jacfwd(jax.jacrev(lambda x: energy(x)))",
        "def hvp(x, v): return jax.jvp(jax.grad(energy), (x,), (v,))",
        "def train(x): return d(lambda x: jnp.sum(d(energy)(x) ** 2))(x)",
        "def norm(x): return jnp.sum(jax.grad(model)(x))\ndef train(x): return jax.grad(norm)(x)",
    ],
)
def test_gradients_of_gradients_in_jax(tmp_path: Path, call: str) -> None:
    lines = JAX + call + "\n"
    assert asked(tmp_path, lines) == f"ops.py:{len(lines.splitlines())}"


@pytest.mark.parametrize(
    "call",
    [
        "g = jax.grad(energy)",
        "g = jax.vmap(jax.grad(energy))",
        "h = jax.hessian(lambda x: x)",
        "def train(f): return jax.grad(lambda x: jax.grad(f)(x))",
        "def hessian(f): return f\nh = hessian(energy)",
        "def train(x): return jax.grad(lambda x: energy(x) + jax.grad(jnp.sin)(x))(x)",
    ],
)
def test_what_is_differentiated_once_or_not_known(tmp_path: Path, call: str) -> None:
    assert asked(tmp_path, JAX + call + "\n") == ""


@pytest.mark.parametrize("name", ["cube", "Cube"])
def test_a_graph_that_is_kept(tmp_path: Path, name: str) -> None:
    train = """
import torch
from ops import cube as op

def penalty(x):
    (g,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
    return (g ** 2).sum()
"""
    assert asked(tmp_path, TORCH, name, train=train) == "train.py:6"
    once = train.replace("create_graph=True", "create_graph=False")
    assert asked(tmp_path, TORCH + "\n", name, train=once) == ""


def test_tapes_around_tapes(tmp_path: Path) -> None:
    body = """
def train(x):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = cube(x)
        g = {}.gradient(y, x)
    return outer.gradient(g, x)
"""
    assert asked(tmp_path, TAPES + body.format("inner")) == "ops.py:6"
    assert asked(tmp_path, TAPES + "\n" + body.format("outer")) == ""


@pytest.mark.parametrize(
    "train",
    [
        "from ops import energy\ndef cube(x): ...\nh = jax.hessian(cube)",
        "from ops import energy\nh = jax.hessian(lambda x: np.cube(x))",
        "from ops import energy\ndef t(cube): return jax.hessian(cube)",
        "from ops import energy\nh = jax.hessian(lambda cube: cube ** 2)",
        f"from ops import energy\nh = jax.jit(q{'.a(1)' * 190})",
    ],
)
def test_other_things_of_the_same_name(tmp_path: Path, train: str) -> None:
    assert asked(tmp_path, JAX, train=f"import jax\nimport numpy as np\n{train}\n") == ""


@pytest.mark.parametrize(
    "train",
    [
        "import ops\nh = jax.hessian(ops.energy)",
        "from ops import energy as e\nh = jax.hessian(lambda x: e(x))",
        "from ops import energy\ndef mine(x): return energy(x)\nh = jax.hessian(mine)",
    ],
)
def test_what_another_file_reaches(tmp_path: Path, train: str) -> None:
    where = asked(tmp_path, JAX, train=f"import jax\n{train}\n")
    assert where == f"train.py:{len(train.splitlines()) + 1}"


def test_a_kept_graph_speaks_of_its_own_method_alone(tmp_path: Path) -> None:
    train = """
import torch
from ops import cube

class Trainer:
    def penalty(self, x):
        return torch.autograd.grad(self.other(x).sum(), x, create_graph=True)

    def forward(self, x):
        return cube(x)
"""
    assert asked(tmp_path, TORCH, train=train) == ""
