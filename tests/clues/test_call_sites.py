"""Calls elsewhere in the file and in the project, read without running anything. Long because most of it is a list of programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from gradcheck_cli.clues.call_sites import calls_of, clues
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter
from gradcheck_cli.subject.results import Place

IMPORTS = """
import functools
import jax
import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F
from einops import rearrange
from jax import random
from torch import nn

@jax.custom_vjp
def op(x, y=None):
    return x

key = random.PRNGKey(0)
rng = np.random.default_rng(0)
"""


def read(
    folder: Path,
    source: str,
    names: Sequence[str] = ("op",),
    parameters: Sequence[str] = ("x", "y"),
) -> dict[str, Clue]:
    """Clues of the gradient from a file of this text."""
    path = folder / "ops.py"
    path.write_text(IMPORTS + dedent(source))
    named = [Parameter(n, i, True, keyword_only=False) for i, n in enumerate(parameters)]
    return clues(path, folder, names, named)


def specs(found: dict[str, Clue]) -> dict[str, str]:
    """Each spec with the domain, as a comment has them."""
    return {name: f"{clue.spec} {clue.domain}".rstrip() for name, clue in found.items()}


EXPRESSIONS = {
    # constructors
    "jnp.zeros((5, 3))": "f32[d5 d3]",
    "np.ones(4)": "f32[d4]",
    "torch.zeros(2, 3)": "f32[d2 d3]",
    "jnp.full((3,), 0.5)": "f32[d3]",
    "np.full((3,), 2)": "i32[d3]",
    "np.full((3,), 2, dtype=np.float32)": "f32[d3]",
    "np.random.randn(5, 3)": "f32[d5 d3]",
    "np.random.rand(5, 3)": "f32[d5 d3]",
    "rng.normal(size=(5, 3))": "f32[d5 d3]",
    "rng.normal(0.0, 2.0, (5, 3))": "f32[d5 d3]",
    "rng.standard_normal((5, 1))": "f32[d5 1]",
    "rng.integers(0, 4, size=(4,))": "i32[d4] in 0..d4",
    "np.random.randint(0, 7, (4,))": "i32[4] in 0..7",
    "random.normal(key, (5, 3))": "f32[d5 d3]",
    "jax.random.uniform(key, (5,), minval=0.1, maxval=0.9)": "f32[d5] in [0.025, 1)",
    "jax.random.uniform(key, (5,), minval=-2.0, maxval=2.0)": "f32[d5]",
    "jax.random.exponential(key, (5,))": "f32[d5] > 0",
    "jax.random.dirichlet(key, jnp.ones(3), (4,))": "f32[d4 d3] in simplex",
    "jax.random.randint(key, (4,), 0, 3)": "i32[4] in 0..3",
    "torch.randn(5, 3, requires_grad=True)": "f32[d5 d3]",
    "torch.randn((5, 3))": "f32[d5 d3]",
    "torch.randint(0, 3, (4,))": "i32[4] in 0..3",
    "torch.randint(3, (4,))": "i32[4] in 0..3",
    "torch.rand(5) + 0.5": "f32[d5] in [0.125, 1.5708)",
    "tf.random.uniform((2, 3))": "f32[d2 d3]",
    "tf.random.normal([2, 3])": "f32[d2 d3]",
    "keras.random.normal((2, 3))": "f32[d2 d3]",
    "tf.constant([[1.0, 2.0]])": "f32[1 d2]",
    "tf.Variable(tf.ones((2, 3)))": "f32[d2 d3]",
    "jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])": "f32[d3 d2]",
    "jnp.array([0, 2, 1])": "i32[d3] in 0..d3",
    "jnp.array([[0, 1]] * 2 + [[2, -100]])": "i32[d3 d2] in 0..d3",
    "jnp.array([[0, 1], [-100, -100]])": "i32[d2 d2] in 0..d2",
    "jnp.array([0, -1, 1])": "i32[3] in -1..2",
    "jnp.array([-20, 0, 30])": "i32[3] in -20..31",
    "jnp.array([2, -10, 1])": "i32[d3] in -10..d3",
    "jnp.array([-100, 0, 100])": "i32[3] in -100..101",
    "jnp.array([True, False])": "bool[d2]",
    "torch.tensor(0.5)": "f32[]",
    "torch.tensor([1, 2], dtype=torch.float32)": "f32[d2]",
    "jnp.float32(2)": "f32[]",
    "jnp.arange(5)": "i32[d5] in 0..d5",
    "jnp.arange(6.0).reshape(2, 3)": "f32[d2 d3]",
    "jnp.linspace(-3, 3, 7)": "f32[d7]",
    "jnp.linspace(0.1, 2, 7)": "f32[d7] in [0.025, 3.14159)",
    "jnp.eye(3)": "f32[d3 d3]",
    "jnp.ones_like(jnp.zeros((2, 3)))": "f32[d2 d3]",
    # what keeps the shape, or changes it
    "2 * jnp.ones((2, 3)) - 1": "f32[d2 d3]",
    "jnp.ones((2, 1)) + jnp.ones(3)": "f32[d2 d3]",
    "jnp.ones((2, 3)) @ jnp.ones((3, 4))": "f32[d2 d4]",
    "jnp.ones((2, 3)).T": "f32[d3 d2]",
    "jnp.ones((2, 3))[..., None]": "f32[d2 d3 1]",
    "jnp.ones((2, 3))[0]": "f32[d3]",
    "jnp.ones((2, 5))[:, 1:4]": "f32[d2 d3]",
    "jnp.ones((2, 3)).transpose(1, 0)": "f32[d3 d2]",
    "torch.ones(2, 3, 4).permute(2, 0, 1)": "f32[d4 d2 d3]",
    "torch.ones(2, 6).view(2, -1, 3)": "f32[d2 d2 d3]",
    "torch.ones(2, 3).unsqueeze(0)": "f32[1 d2 d3]",
    "jnp.ones((2, 3)).astype(jnp.int32)": "i32[d2 d3]",
    "torch.arange(4).float()": "f32[d4]",
    "torch.randn(3).double().requires_grad_()": "f32[d3]",
    "jnp.ones((4, 3)).sum(axis=-1, keepdims=True)": "f32[d4 1]",
    "jnp.concatenate([jnp.ones((2, 3)), jnp.ones((4, 3))])": "f32[d6 d3]",
    "jnp.stack([jnp.ones(3), jnp.ones(3)], axis=-1)": "f32[d3 d2]",
    "jnp.einsum('bij,bjk->bik', jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5)))": "f32[d2 d3 d5]",
    "rearrange(jnp.ones((2, 12)), 'b (h d) -> b h d', h=3)": "f32[d2 d3 d4]",
    "jnp.ones((128, 64))": "f32[d128 d64]",
    # domains
    "jax.nn.softmax(random.normal(key, (5, 3)))": "f32[d5 d3] in simplex",
    "jax.nn.softmax(random.normal(key, (5, 3)), axis=0)": "f32[d5 d3]",
    "torch.randn(5, 3).softmax(dim=-1)": "f32[d5 d3] in simplex",
    "jax.nn.sigmoid(jnp.zeros(3))": "f32[d3] in (0, 1)",
    "jnp.abs(jnp.zeros(3))": "f32[d3] >= 0",
    "jnp.abs(jnp.zeros(3)) + 0.1": "f32[d3] >= 0.1",
    "jnp.exp(jnp.zeros(3))": "f32[d3] > 0",
    "-jnp.exp(jnp.zeros(3))": "f32[d3] < 0",
    "jnp.sort(random.normal(key, (5,)))": "f32[d5] in sorted",
    "jnp.argmax(jnp.ones((4, 3)), axis=-1)": "i32[4] in 0..3",
    "jnp.zeros((4, 3)) > 0": "bool[d4 d3]",
    "(rng.random((4, 3)) > 0.5).astype(np.float32)": "f32[d4 d3] in binary",
    "F.normalize(torch.randn(2, 3), dim=-1)": "f32[d2 d3] in unit",
    "F.one_hot(torch.arange(3), 4).float()": "f32[d3 d4] in binary",
    # plain values
    "0.5": "f32[]",
    "3": "3",
    "-1": "-1",
    "'mean'": "'mean'",
    "None": "None",
    "(2, 2)": "(2, 2)",
    # nobody knows
    "load('x.npy')": None,
    "jnp.load('x.npy')": None,
    "np.ones(int(input()))": None,
    "random.normal(key, tuple(map(int, 'ab')))": None,
    "jnp.ones((2, 3)) + jnp.ones(5)": None,
    "jnp.ones(3).frobnicate()": None,
    "np.ones(3, dtype=complex)": None,
}  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_read_or_left_alone(expression: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"op({expression})")
    assert specs(found).get("x") == EXPRESSIONS[expression]


PROGRAMS = {
    "names are followed": ("""
        B, D = 4, 8
        x = np.random.randn(B, D)
        w = np.ones(D)
        op(x, y=w)
        """, {"x": "f32[d4 d8]", "y": "f32[d8]"}),
    "a name that is bound again is what it is then": ("""
        x = np.ones((2, 3))
        x = x.sum(axis=1)
        op(x)
        """, {"x": "f32[d2]"}),
    "a name that a branch may bind is unknown": ("""
        x = np.ones((2, 3))
        if rng.random() > 0.5:
            x = np.ones(4)
        op(x)
        """, {}),
    "a branch that raises did not run": ("""
        x = np.ones((2, 3))
        if load():
            raise ValueError
        op(x)
        """, {"x": "f32[d2 d3]"}),
    "a main block": ("""
        if __name__ == "__main__":
            op(torch.ones(3))
        """, {"x": "f32[d3]"}),
    "a function that nobody calls": ("""
        def test():
            x = jnp.ones((2, 3))
            assert op(x).shape == x.shape
        """, {"x": "f32[d2 d3]"}),
    "a name for a size that is an argument": ("""
        def make(batch, dim):
            return op(np.ones((batch, dim)), np.zeros(dim))
        """, {"x": "f32[batch dim]", "y": "f32[dim]"}),
    "a layer that inherits its weights": ("""
        class Dense(nn.Linear):
            def forward(self, x):
                return op(self.weight, self.bias)
        Dense(5, 3)(torch.ones(2, 5))
        """, {"x": "f32[d3 d5]", "y": "f32[d3]"}),
    "a layer that inherits its weights and has no bias": ("""
        class Dense(nn.Linear):
            def forward(self, x):
                return op(self.weight, self.bias)
        def make(n, m):
            return Dense(n, m, bias=False)(torch.ones(2, n))
        """, {"x": "f32[m n]", "y": "None"}),
    "sizes made of arguments": ("""
        def make(n, m):
            return op(np.ones((4 * n, n + m)), np.zeros(n * 2 * 2 + m - 1))
        """, {"x": "f32[4*n m+n]", "y": "f32[m+4*n-1]"}),
    "what is made of arguments and is no size": ("""
        def make(n, m):
            return op(np.ones((n * m, 3)), np.zeros(n // 2))
        """, {"x": ""}),
    "a helper makes the arrays": ("""
        def data(n, d=3):
            return rng.normal(size=(n, d)), rng.normal(size=d)
        x, w = data(5)
        op(x, w)
        """, {"x": "f32[d5 d3]", "y": "f32[d3]"}),
    "a wrapper": ("""
        def wrapper(inputs, weight):
            return op(inputs, weight)
        wrapper(jnp.ones((4, 3)), jnp.ones(3))
        """, {"x": "f32[d4 d3]", "y": "f32[d3]"}),
    "a layer that is built and called": ("""
        class Layer(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(dim))
            def forward(self, x):
                return op(x, self.weight)
        layer = Layer(6)
        layer(torch.randn(2, 6))
        """, {"x": "f32[d2 d6]", "y": "f32[d6]"}),
    "a layer that nobody calls": ("""
        class Layer(nn.Module):
            def __init__(self, dim, bias=True):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(dim))
            def forward(self, x):
                return op(x, self.weight)
        """, {"y": "f32[dim]"}),
    "an object that nobody calls": ("""
        class Layer:
            def __init__(self, dim, power=3):
                self.weight, self.power = jnp.ones(dim), power
            def __call__(self, x):
                return op(x, self.power)
        """, {"y": "3"}),
    "a layer of Keras": ("""
        class Layer(keras.layers.Layer):
            def build(self, shape):
                self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")
            def call(self, inputs):
                return op(inputs, self.scale)
        Layer()(tf.random.normal((2, 6)))
        """, {"x": "f32[d2 d6]", "y": "f32[d6]"}),
    "a layer of a framework": ("""
        op(nn.Linear(4, 8)(torch.randn(5, 4)), nn.Linear(4, 8).weight)
        """, {"x": "f32[d5 d8]", "y": "f32[d8 d4]"}),
    "grad": ("jax.grad(op)(jnp.ones((2, 3)))", {"x": "f32[d2 d3]"}),
    "grad of a lambda": ("""
        w = jnp.ones(3)
        jax.jit(jax.value_and_grad(lambda v: op(v, w).sum()))(jnp.ones((2, 3)))
        """, {"x": "f32[d2 d3]", "y": "f32[d3]"}),
    "vjp": ("out, pull = jax.vjp(op, jnp.ones(3), jnp.ones(2))", {"x": "f32[d3]", "y": "f32[d2]"}),
    "vmap": ("jax.vmap(op, in_axes=(0, None))(jnp.ones((5, 3)), jnp.ones(2))", {"x": "f32[d3]", "y": "f32[d2]"}),
    "gradcheck": ("torch.autograd.gradcheck(op, (torch.randn(3, dtype=torch.double), torch.ones(2)))", {"x": "f32[d3]", "y": "f32[d2]"}),
    "partial": ("functools.partial(op, y=-1)(jnp.ones(3))", {"x": "f32[d3]", "y": "-1"}),
    "a rule is given, and nothing called": ("op.defvjp(lambda x: (op(x), x), lambda r, g: (g,))", {}),
    "what is expected to fail does not count": ("""
        import pytest
        def test():
            with pytest.raises(ValueError):
                op(jnp.ones((2, 3)), None)
        """, {}),
    "what may fail does not count": ("""
        try:
            op(jnp.ones(3))
        except TypeError:
            pass
        """, {}),
    "a loop over what is written": ("""
        for shape in [(3,), (4, 2)]:
            op(jnp.ones(shape))
        """, {"x": "f32[d4 d2]"}),
    "what changes where it stands keeps its shape, not its domain": ("""
        x = np.abs(np.ones(3))
        x[0] = -1
        op(x)
        """, {"x": "f32[d3]"}),
    "what a loop adds up is unknown": ("""
        x = jnp.ones(3)
        for i in range(50):
            x = jnp.concatenate([x, x])
        op(x)
        """, {}),
    "other arguments stay": ("op(load(), y=jnp.ones(3))", {"y": "f32[d3]"}),
    "starred": ("args = (jnp.ones(3), jnp.ones(2))\nop(*args)", {"x": "f32[d3]", "y": "f32[d2]"}),
    "starred, and unknown": ("op(*load())", {}),
    "the richest call": ("op(0.5)\nop(jnp.ones((2, 3)), jnp.ones(3))\nop(jnp.ones(3))", {"x": "f32[d2 d3]", "y": "f32[d3]"}),
    "definite": ("a = rng.normal(size=(3, 3))\nop(a @ a.T + 3 * np.eye(3))", {"x": "f32[d3 d3] in spd"}),
    "unit rows": ("a = rng.normal(size=(4, 3))\nop(a / np.linalg.norm(a, axis=-1, keepdims=True))", {"x": "f32[d4 d3] in unit"}),
    "sums to one": ("a = rng.random((4, 3))\nop(a / a.sum(-1, keepdims=True))", {"x": "f32[d4 d3] in simplex"}),
    "nested": ("op({'w': jnp.ones((3, 4)), 'b': jnp.ones(4)}, jnp.ones(3))", {"x": "{w: f32[d3 d4], b: f32[d4]}", "x['w']": "f32[d3 d4]", "x['b']": "f32[d4]", "y": "f32[d3]"}),
    "labels": ("op(torch.randn(4, 32), torch.randint(0, 32, (4,)))", {"x": "f32[d4 d32]", "y": "i32[d4] in 0..d32"}),
    "places in a table": ("op(torch.randn(64), torch.tensor([63, 40]))", {"x": "f32[d64]", "y": "i32[d2] in 17..d64"}),
    "places behind a few": ("op(torch.randn(64), torch.tensor([63, 9, 2]))", {"x": "f32[d64]", "y": "i32[d3] in 2..d64"}),
    "places of which the first ones are left": ("op(torch.randn(64), torch.tensor([63, 9]))", {"x": "f32[d64]", "y": "i32[d2] in 4..d64"}),
    "numbers that are no places": ("op(torch.randn(5), torch.tensor([9, 7]))", {"x": "f32[5]", "y": "i32[2] in 7..10"}),
    "sizes that a number speaks of": ("op(torch.randn(2, 64), 4)", {"x": "f32[2 8]", "y": "4"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_followed(name: str, tmp_path: Path) -> None:
    source, expected = PROGRAMS[name]
    assert specs(read(tmp_path, source)) == expected


def test_a_function_of_torch_is_called_by_its_apply(tmp_path: Path) -> None:
    source = """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                return x * factor
        scale = Scale.apply
        scale(torch.ones(3), 2.5)
        """
    found = read(tmp_path, source, ["Scale"], ["x", "factor"])
    assert specs(found) == {"x": "f32[d3]", "factor": "f32[]"}
    assert found["factor"].values == (2.5,)


def test_a_gradient_goes_by_the_name_that_the_module_gives_it(tmp_path: Path) -> None:
    source = """
        def _rule(f):
            @jax.custom_vjp
            def inner(x):
                return f(x)
            return inner
        relu = _rule(jax.nn.relu)
        other = _rule(jnp.tanh)
        relu(jnp.ones((2, 3)))
        other(jnp.ones(4))
        """
    assert specs(read(tmp_path, source, ["relu"], ["x"])) == {"x": "f32[d2 d3]"}


def test_kinds_and_values_are_said(tmp_path: Path) -> None:
    found = read(tmp_path, "op(jnp.ones(3), 'sum')\nop(jnp.ones((2, 3)), 'mean')")
    assert (found["x"].kind, found["x"].rank) == (Kind.ARRAY, 2)
    assert (found["y"].kind, found["y"].values) == (Kind.WORD, ("mean", "sum"))
    assert found["x"].source == "the call `op(jnp.ones((2, 3)), 'mean')` in line 21"
    assert read(tmp_path, "op(jnp.ones(3), key)")["y"].kind is Kind.KEY
    assert read(tmp_path, "op(jnp.ones(3), lambda v: v)")["y"].kind is Kind.FUNCTION
    assert read(tmp_path, "op(jnp.ones(3), jnp.float16)")["y"].kind is Kind.DTYPE


TESTS = """
import numpy as np
import pytest
{imports}

@pytest.fixture
def weight():
    return np.ones(3)

@pytest.mark.parametrize("n, d", [(5, 3), (2, 3)])
def test_op(n, d, weight):
    {call}(np.random.randn(n, d), weight)
"""


@pytest.mark.parametrize(
    ("imports", "call"),
    [("from ops import op", "op"), ("import ops", "ops.op"), ("from ops import op as it", "it")],
)
def test_tests_of_the_project_are_read(imports: str, call: str, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_ops.py").write_text(TESTS.format(imports=imports, call=call))
    found = read(tmp_path, "")
    assert specs(found) == {"x": "f32[d5 d3]", "y": "f32[d3]"}
    assert found["x"].source.endswith("in tests/test_ops.py:12")


def test_a_function_of_another_module_with_the_name_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(
        "import ops\nimport numpy as np\nfrom others import op\nop(np.ones(3))\n"
    )
    assert read(tmp_path, "") == {}


def test_a_package_shows_its_functions(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from .ops import op\n")
    (package / "layer.py").write_text("import numpy as np\nfrom . import ops\nops.op(np.ones(3))\n")
    (tmp_path / "main.py").write_text(
        "import numpy as np\nfrom pkg import op\nop(np.ones((2, 3)))\n"
    )
    assert specs(read(package, "")) == {"x": "f32[d3]"}
    named = [Parameter("x", 0, True, keyword_only=False)]
    assert specs(clues(package / "ops.py", tmp_path, ["op"], named)) == {"x": "f32[d2 d3]"}


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "def broken(:") == {}
    assert read(tmp_path, "op(" + "+".join(["x"] * 3000) + ")") == {}
    assert clues(tmp_path / "gone.py", tmp_path, ["op"], []) == {}


def test_an_object_that_holds_itself_is_no_argument_to_read(tmp_path: Path) -> None:
    source = """
        class Node:
            def __init__(self):
                self.own = self
        op(Node(), jnp.ones(3))
        """
    assert specs(read(tmp_path, source)) == {"y": "f32[d3]"}


def test_a_dictionary_that_a_function_makes_is_what_is_read_by_its_keys(tmp_path: Path) -> None:
    source = """
    import math

    def start(key, depth, width):
        w = random.normal(key, (depth, width)) / width**0.5
        return {"w": w / math.sqrt(depth), "b": jnp.zeros(width) * depth}
    """

    def step(x: Any, params: Any, others: Any) -> Any:
        return x @ params["w"] + params["b"] + others["w"]

    path = tmp_path / "ops.py"
    path.write_text(IMPORTS + dedent(source))
    parameters = [
        Parameter(n, i, True, keyword_only=False) for i, n in enumerate(("x", "params", "others"))
    ]
    gradient: Any = SimpleNamespace(
        place=Place(str(path), 1, "step"), parameters=lambda: parameters, rule_code=lambda: [step]
    )  # fmt: skip
    found = calls_of(gradient)
    assert specs(found) == {
        "params": "{w: f32[depth width], b: f32[width]}",
        "params['w']": "f32[depth width]",
        "params['b']": "f32[width]",
    }
    assert found["params"].source == "what `start` gives back"


def test_calls_of_what_the_same_definition_made_speak_for_what_is_nowhere_called(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ops.py"
    source = "by_row = made(1)\n\ndef f():\n    return by_row(jnp.zeros((5, 3)), jnp.zeros((5, 3), bool))\n"
    path.write_text(IMPORTS + source)
    parameters = [Parameter(n, i, True, keyword_only=False) for i, n in enumerate(("x", "kept"))]

    def found(name: str, *siblings: str) -> dict[str, Clue]:
        place = Place(str(path), 1, name, siblings=siblings)
        gradient: Any = SimpleNamespace(
            place=place, parameters=lambda: parameters, rule_code=list
        )  # fmt: skip
        return calls_of(gradient)

    assert found("by_column") == {}
    assert found("by_column", "by_row")["kept"].kind is Kind.BOOLS


def test_what_the_text_of_a_caller_states_is_what_its_parameters_are(tmp_path: Path) -> None:
    source = '''
        def mix(x, weights, scale=1.0):
            """Log of a mixture.

            Args:
                x: (batch, parts) densities, positive.
                weights: (parts, out) weights.
            """
            return op(x / scale, jnp.sqrt(weights))
        '''
    found = read(tmp_path, source)
    assert specs(found) == {"x": "f32[batch parts]", "y": "f32[parts dout] >= 0"}


def test_no_number_is_made_of_what_nobody_tells(tmp_path: Path) -> None:
    source = """
        def scaled(x: jnp.ndarray, y, value=2.0):
            return op(x / value, y / value)
        def sized(width):
            return op(jnp.zeros(width), width**0.5)
        """
    assert specs(read(tmp_path, source)) == {"x": "f32[width]", "y": "f32[]"}


def test_dictionaries_that_are_made_in_other_ways(tmp_path: Path) -> None:
    source = """
        values = dict(a=1.0, b=2.0)
        first = {k: jnp.asarray(v) for k, v in values.items()}
        op(first, dict(first, c=jnp.ones((3, 5))))
        """
    assert specs(read(tmp_path, source)) == {
        "x": "{a: f32[], b: f32[]}", "x['a']": "f32[]", "x['b']": "f32[]",
        "y": "{a: f32[], b: f32[], c: f32[d3 d5]}", "y['a']": "f32[]", "y['b']": "f32[]", "y['c']": "f32[d3 d5]",
    }  # fmt: skip


def test_an_axis_that_goes_along_a_row_of_numbers_stays_as_long(tmp_path: Path) -> None:
    source = "op(jnp.ones((7, 5)), (2.0, 4.0, 8.0, 16.0, 32.0))"
    assert specs(read(tmp_path, source))["x"] == "f32[d7 5]"
