"""Which custom gradients does the source define?"""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

from gradcheck_cli.contract.worker import Mark
from gradcheck_cli.project.source_marks import by_framework, find_marks


def marks(source: str) -> list[tuple[str, int, str, str | None]]:
    return [(m.name, m.line, m.kind, m.scope) for m in find_marks(ast.parse(source))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import jax\n@jax.custom_vjp\ndef f(x): ...", [("f", 3, "custom_vjp", None)]),
        ("from jax import custom_jvp as cj\n@cj\ndef f(x): ...", [("f", 3, "custom_jvp", None)]),
        ("import jax\ng = jax.custom_vjp(f)", [("f", 2, "custom_vjp", None)]),
        ("from jax import lax\ndef f(a):\n    return lax.custom_root(g, a, s, t)", [("custom_root", 3, "custom_root", "f")]),
        ("from jax.lax import custom_linear_solve as solve\nclass A:\n    def f(self):\n        return solve(m, b, s)", [("custom_linear_solve", 4, "custom_linear_solve", "A.f")]),
        ("from jax import lax\nx = lax.custom_root(g, 1.0, s, t)", []),
        ("import jax\ng = jax.custom_gradient(lambda x: x)", [("<custom_gradient>", 2, "custom_gradient", None)]),
        ("import jax\nfrom functools import partial\n@partial(jax.custom_vjp, nondiff_argnums=(0,))\ndef f(n, x): ...", [("f", 4, "custom_vjp", None)]),
        ("import equinox as eqx\n@eqx.filter_custom_vjp\ndef f(x): ...", [("f", 3, "filter_custom_vjp", None)]),
        ("import jax\ndef make(a):\n    @jax.custom_vjp\n    def f(x): ...\n    return f", [("f", 4, "custom_vjp", "make")]),
        ("import jax\nclass A:\n    def b(self):\n        @jax.custom_jvp\n        def f(x): ...", [("f", 5, "custom_jvp", "A.b")]),
        ("import torch\nclass F(torch.autograd.Function): ...", [("F", 2, "Function", None)]),
        ("import torch\nBase = torch.autograd.Function\nclass F(Base): ...", [("F", 3, "Function", None)]),
        ("import jax\nrule = jax.custom_vjp\n@rule\ndef f(x): ...", [("f", 4, "custom_vjp", None)]),
        ("a = b\nb = a\nclass F(a): ...", []),
        ("import tensorflow as tf\n@tf.custom_gradient\ndef f(x): ...", [("f", 3, "custom_gradient", None)]),
        ("def custom_vjp(f): return f\n@custom_vjp\ndef f(x): ...", []),
        ("import jax\nf.defvjp(a, b)\nx = jax.grad(f)", []),
    ],
)  # fmt: skip
def test_marks(source: str, expected: list[tuple[str, int, str, str | None]]) -> None:
    assert marks(source) == expected


def test_marks_travel_in_a_task_whole_and_by_framework() -> None:
    source = "import jax, torch\nclass F(torch.autograd.Function): ...\ndef make():\n    return jax.custom_vjp(lambda x: x)"
    groups = by_framework(find_marks(ast.parse(source)))
    wire = msgspec.msgpack.encode(groups)
    assert msgspec.msgpack.decode(wire, type=dict[str, list[Mark]]) == groups
    assert [(m.name, m.scope, m.is_anonymous) for m in groups["jax"]] == [
        ("<custom_vjp>", "make", True)
    ]
    assert [(m.name, m.scope, m.is_anonymous) for m in groups["torch"]] == [("F", None, False)]


PROJECT = {
    "pkg/__init__.py": "",
    "pkg/compat.py": "import jax\nimport torch\nfrom jax import custom_jvp\nrule = jax.custom_vjp\n"
    "class Base(torch.autograd.Function): ...\n"
    "def differentiable(f):\n    return jax.custom_gradient(f)\n"
    "def timed(f): return f\n",
    "pkg/deep/__init__.py": "from ..compat import Base as Fused, rule\n",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from .compat import custom_jvp\n@custom_jvp\ndef f(x): ...", [("f", 3, "custom_jvp", None)]),
        ("from . import compat\n@compat.jax.custom_vjp\ndef f(x): ...", [("f", 3, "custom_vjp", None)]),
        ("from pkg.deep import rule\n@rule\ndef f(x): ...", [("f", 3, "custom_vjp", None)]),
        ("from .compat import differentiable\n@differentiable\ndef f(x): ...", [("f", 3, "custom_gradient", None)]),
        ("from .deep import Fused\nclass F(Fused): ...", [("F", 2, "Function", None)]),
        ("from .compat import timed\n@timed\ndef f(x): ...", []),
        ("from .nowhere import custom_vjp\n@custom_vjp\ndef f(x): ...", []),
        ("from .compat import Base\nclass F(Base.Inner): ...", []),
    ],
)  # fmt: skip
def test_what_comes_through_files_of_the_project(
    tmp_path: Path, source: str, expected: list[tuple[str, int, str, str | None]]
) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = tmp_path / "pkg" / "ops.py"
    found = find_marks(ast.parse(source), path)
    assert [(m.name, m.line, m.kind, m.scope) for m in found] == expected
