"""What a function's own text says of its arguments, and where it has values."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from gradcheck_cli.infer.annotations import annotated
from gradcheck_cli.infer.classes import classes, fields_of, like, made_of
from gradcheck_cli.infer.docstrings import documented
from gradcheck_cli.inputs.signature import Fixed, Leaf, Parameter, filled
from gradcheck_cli.record.encode import structure_of
from tests.conftest import check_json


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        ('Float[Array, "b n"]', "f32[b n]"),
        ("jaxtyping.Int32[jax.Array, 'b']", "i32[b]"),
        ("Bool[Tensor, 'n n']", "bool[n n]"),
        ("Float[Array, '*batch 3 #d']", "f32[3 d]"),
        ("Float[Array, '']", "f32[]"),
        ("Optional[Float[Array, 'n']]", "f32[n]"),
        ("Float[Array, 'n+1']", ""),
        ("int", "3"),
        ("jax.Array", ""),
        ("dict[str, 'x']", ""),
    ],
)
def test_annotations_that_say_a_shape(annotation: str, spec: str) -> None:
    parameter = Parameter("x", 0, True, False, annotation=annotation)
    assert annotated([parameter]).get("x", "") == spec


DOCSTRINGS = {
    "google": ("Args:\n    x: A tensor of shape (batch, dim).\n    y (jax.Array): labels of shape [batch]\n", "f32[batch dim]", "i32[batch]"),
    "numpy": ("Parameters\n----------\nx : array, shape (N, C)\n    Scores.\ny : (N,) array of int\n    Labels.\n", "f32[N C]", "i32[N]"),
    "sphinx": (":param x: the logits, shape ``(n, 3)``\n:param y: boolean mask with shape (n,)\n", "f32[n 3]", "bool[n]"),
    "over lines": ("Args:\n    x: queries,\n        with shape [heads, n, d]\n    y: int, how many\n", "f32[heads n d]", "3"),
    "with leading dimensions": ("Args:\n    x: [..., n] array\n    y: nothing is said\n", "f32[n]", ""),
    "prose": ("x and y are added (slowly), shape does not matter.\n", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("style", DOCSTRINGS)
def test_docstrings_that_say_a_shape(style: str) -> None:
    text, x, y = DOCSTRINGS[style]

    def function(x: object, y: object) -> None: ...

    function.__doc__ = f"Does it.\n\n{text}"
    found = documented(function, ["x", "y"])
    assert (found.get("x", ""), found.get("y", "")) == (x, y)


class Pair(NamedTuple):
    weight: float
    n: int


@dataclasses.dataclass(frozen=True)
class Layer:
    weight: float
    bias: float

    def __post_init__(self) -> None:
        raise AssertionError("an object is given its fields, not made anew")


def test_objects_are_made_of_their_fields() -> None:
    def option(name: str, annotation: str) -> object:
        return Fixed(2, "2", "") if annotation == "int" else Leaf(name, (), "")

    pair = made_of(Pair, option)
    layer = made_of(Layer, option)
    assert pair is not None
    assert layer is not None
    assert filled(pair, iter([0.5])) == Pair(0.5, 2)
    made = filled(layer, iter([1.0, 2.0]))
    assert (type(made), made.weight, made.bias) == (Layer, 1.0, 2.0)
    again = like(made, [(name, Leaf(name, (), "")) for name, _ in fields_of(made)])
    assert filled(again, iter([3.0, 4.0])).bias == 4.0


def test_classes_are_known_from_annotations_that_exist() -> None:
    def known(a: Pair, b: Layer, c: float) -> None: ...

    def unknown(a: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert classes(known) == {"a": Pair, "b": Layer}
    assert classes(unknown) == {}


@pytest.mark.parametrize(
    ("numbers", "family"),
    [
        (np.full((3, 4), 0.25), "simplex"),
        (np.array([0.0, 1, 1, 0, 1, 0, 0, 1]), "binary"),
        (np.eye(3)[[1, 2, 0]] * -1.0, "orthogonal"),
        (np.eye(3) + 0.5, "spd"),
        (np.array([[0.6, -0.8]] * 4), "unit"),
        (np.linspace(-1, 1, 12), None),
        (np.array([1.0, 0.0]), None),
    ],
)
def test_structure_that_is_no_accident(numbers: np.ndarray, family: str | None) -> None:
    assert structure_of(numbers) == family


RULES = """
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Params(NamedTuple):
    w: jax.Array
    b: jax.Array


@jax.custom_vjp
def affine(p: Params, x):
    return p.w * x + p.b


affine.defvjp(lambda p, x: (affine(p, x), (p, x)), lambda r, g: (Params(g * r[1], g), g * r[0].w))


@jax.custom_vjp
def given(x, bias=None):
    return x * x if bias is None else x * x + bias


given.defvjp(
    lambda x, bias=None: (given(x, bias), (x, bias)),
    lambda r, g: (2 * r[0] * g, None if r[1] is None else 2 * g),  # wrong where bias is given
)


@jax.custom_vjp
def logdet(a):
    return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(a))).sum()


logdet.defvjp(lambda a: (logdet(a), a), lambda a, g: (g * jnp.linalg.inv(a),))


@jax.custom_vjp
def inside(x, s):
    return jnp.where(s > 0, jnp.log(s) + (x / s) ** 2, jnp.nan)


inside.defvjp(
    lambda x, s: (inside(x, s), (x, s)),
    lambda r, g: (g * 2 * r[0] / r[1] ** 2, g * (1 / r[1] - 2 * r[0] ** 2 / r[1] ** 3)),
)
"""


RULES += """

from collections.abc import Callable


@jax.custom_vjp
def shared(x, scale):
    return x * scale


shared.defvjp(lambda x, s: (shared(x, s), (x, s)), lambda r, g: (g * r[1], g * r[0]))


def through(f: Callable[[jax.Array], jax.Array], x):
    return shared(f(x), x)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("infer")
    (folder / "rules_infer.py").write_text(RULES)
    return check_json("rules_infer.py", cwd=folder).report


def _verdict(report: dict, name: str) -> str:
    return next(g["verdict"] for g in report["gradients"] if g["name"] == name)


def _source(report: dict, name: str, path: str) -> str:
    inputs = next(g["inputs"] for g in report["gradients"] if g["name"] == name)
    return next(i["source"] for i in inputs if i["path"] == path)


def test_an_object_of_the_annotated_class_is_made(report: dict) -> None:
    assert _verdict(report, "affine") == "correct"
    assert _source(report, "affine", "p.w") == "a field of Params"


def test_a_function_stands_for_a_callable(tmp_path: Path) -> None:
    (tmp_path / "rules_infer.py").write_text(RULES)
    run = check_json("rules_infer.py:through", cwd=tmp_path)
    assert run.gradient("through")["status"] == "checked"
    assert _source(run.report, "through", "f") == "its annotation"


def test_an_optional_argument_is_given_too(report: dict) -> None:
    assert _verdict(report, "given") == "wrong"
    (finding,) = (
        f for f in report["findings"] if f["gradient"] == "given" and f["severity"] == "error"
    )
    assert "d/dbias" in finding["message"]
    assert "2 times the truth" in finding["message"]


def test_matrices_are_definite_where_others_have_no_value(report: dict) -> None:
    assert _verdict(report, "logdet") == "correct"
    assert "no value at most plain numbers" in _source(report, "logdet", "a")


def test_where_one_value_is_undefined_no_gradient_is_asked_for(report: dict) -> None:
    assert _verdict(report, "inside") == "correct"
