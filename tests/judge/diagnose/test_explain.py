"""What is wrong, in words: each class of mistake is named, at the rows where a rule is wrong."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.judge.diagnose.explain import explain
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.laws.law import judgement
from gradcheck_cli.measure.formula_gap import comparison
from tests.conftest import FIXTURES, check_json
from tests.traced import fixture, ruled, traced

X = np.array([0.5, -1.5, 1.75, 0.25, -0.75, 1.25])
Y = np.array([2.0, 0.75, -1.25, 3.0, -0.5, 1.5])
VECTORS = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75], [1.5, -2.0, 0.75]])
MATRICES = np.array([[[0.5, -1.5], [2.0, 3.0]], [[0.25, -0.75], [1.5, -2.5]]])


def product(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


WRONG: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "it is the gradient of y": (
        ruled(product, lambda r, ct: (ct * jnp.sin(r[0]), ct * jnp.cos(r[0]) * r[1])),
        (X, Y),
    ),
    "only the first element of the cotangent is used": (
        ruled(lambda x: jnp.exp(-x * x), lambda r, ct: (ct[0] * -2 * r[0] * jnp.exp(-r[0] ** 2),)),
        (VECTORS,),
    ),
    "the sum of the cotangent is used for each of its elements": (
        ruled(jnp.sinh, lambda r, ct: (ct.sum() * jnp.cosh(r[0]),)),
        (VECTORS,),
    ),
    "the cotangent of output 0 is ignored": (
        ruled(lambda x: (jnp.sin(x), x**3), lambda r, ct: (ct[1] * 3 * r[0] ** 2,)),
        (X,),
    ),
    "the cotangents of the two outputs are exchanged": (
        ruled(lambda x: (jnp.sin(x), x**3), lambda r, ct: (ct[1] * jnp.cos(r[0]) + ct[0] * 3 * r[0] ** 2,)),
        (X,),
    ),
    "it is the truth transposed": (
        ruled(
            lambda m, v, w: v @ m @ w,
            lambda r, ct: (ct * jnp.outer(r[2], r[1]), ct * r[0] @ r[2], ct * r[1] @ r[0]),
        ),
        (MATRICES, VECTORS[:2, :2], VECTORS[:2, 1:]),
    ),
    "it is the truth at the output instead of x": (
        ruled(lambda x: jnp.exp(x) / 4, lambda r, ct: (ct * jnp.exp(jnp.exp(r[0]) / 4) / 4,)),
        (X,),
    ),
    "it is the truth in reversed order": (
        ruled(lambda x: x**3, lambda r, ct: (jnp.flip(ct * 3 * r[0] ** 2),)),
        (VECTORS,),
    ),
    "it is the truth with x and y exchanged": (
        ruled(lambda x, y: x * x * y, lambda r, ct: (ct * 2 * r[1] * r[0] + 0 * ct, ct * r[1] ** 2)),
        (X, Y),
    ),
}  # fmt: skip


def explained(function: Any, *columns: Any) -> list[str | None]:
    """What is said of each argument whose formula is wrong, as the law of the formula asks for it."""
    m = traced(function, *columns)
    texts, start = [], 0
    for leaf, elements in enumerate(m.components("gradients")):
        part = slice(start, start + len(elements[1]))
        start = part.stop
        differs = comparison(m).differs[:, part].any(axis=1)
        if differs.any():
            wrong, rest = np.flatnonzero(differs).tolist(), np.flatnonzero(~differs).tolist()
            texts.append(explain(m, leaf, wrong, rest))
    return texts


@pytest.mark.parametrize("text", list(WRONG))
def test_a_mistake_is_named(text: str) -> None:
    function, columns = WRONG[text]
    assert text in explained(function, *columns)


def swish(x):
    return x * jax.nn.sigmoid(x)


def curve(x):
    return jnp.sin(x) + x * x * x


def line_of(function: Any) -> int:
    return int(function.__code__.co_firstlineno) + 1


PARTS: dict[str, tuple[Any, tuple[Any, ...], list[str | None]]] = {
    "a missing term": (
        ruled(swish, lambda r, ct: (ct * jax.nn.sigmoid(r[0]),)),
        (X,),
        [f"a term is missing, what comes through `jax.nn.sigmoid(x)` (line {line_of(swish)})"],
    ),
    "a missing factor, and a sign": (
        ruled(lambda x: jnp.exp(-x * x / 2), lambda r, ct: (-ct * jnp.exp(-r[0] * r[0] / 2),)),
        (X,),
        ["a factor is missing: x"],
    ),
    "a missing factor, and another one that is no part": (
        ruled(
            lambda x, y, z: x * y * z,
            lambda r, ct: (ct * r[1], ct * r[0] * r[2] * jnp.sin(r[1]), ct * r[0] * r[1]),
        ),
        (X, Y, X[::-1] + 4),
        ["a factor is missing: z", None],
    ),
    "a wrong sign": (
        ruled(curve, lambda r, ct: (ct * (3 * r[0] ** 2 - jnp.cos(r[0])),)),
        (X,),
        [f"a term is missing or has the wrong sign, what comes through `jnp.sin(x)` (line {line_of(curve)})"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(PARTS))
def test_a_part_of_the_truth_at_the_wrong_place_is_named(name: str) -> None:
    function, columns, texts = PARTS[name]
    assert explained(function, *columns) == texts


def test_a_wrong_condition_is_told_from_a_wrong_branch() -> None:
    x, beta = np.append(X, [-4.0, 7.0, 0.5]), np.append(Y, [30.0, 5.0, 25.0])
    to_x, to_beta = explained(fixture("wrong/formula").ramp, x, beta)
    end = " chooses the wrong branch: the other one is right there"
    expression = "jnp.where(inside, 1.0, jnp.tanh(beta))"
    lines = (FIXTURES / "wrong" / "formula.py").read_text().splitlines()
    line = lines.index(f"    dx = {expression}") + 1
    assert to_x == f"the condition of `{expression}` (line {line}){end}"
    assert to_beta is not None
    assert to_beta.endswith(f"(line {line + 1}){end}")


def test_a_rule_that_fits_nothing_gets_no_words() -> None:
    function = ruled(jnp.sin, lambda r, ct: (ct * (jnp.cos(r[0]) + r[0] ** 3 / 7),))
    assert explained(function, X) == [None]


@pytest.mark.slow  # a whole run of PyTorch
@pytest.mark.needs("torch")
def test_a_wrong_condition_is_named_in_pytorch_too() -> None:
    run = check_json("fixtures/torch/wrong.py")
    errors = [f for f in run.findings("BranchVariable") if f["severity"] == "error"]
    assert any("the condition" in f["message"] for f in errors)
    assert all(f["message"].count("the other one is right there") == 1 for f in errors)


@pytest.mark.parametrize(
    ("function", "columns", "messages"),
    [
        (
            ruled(jnp.tanh, lambda r, ct: (ct * (jnp.tanh(r[0]) ** 2 - 1),)),
            (X,),
            ["the formula is wrong: its sign is reversed"],
        ),
        (
            PARTS["a missing factor, and another one that is no part"][0],
            (X, Y, X[::-1] + 4),
            ["d/dx: the formula is wrong: a factor is missing: z", "d/dy: the formula is wrong"],
        ),
    ],
)
def test_the_law_of_the_formula_says_it(
    function: Any, columns: tuple[Any, ...], messages: list[str]
) -> None:
    failures = judgement(FORMULA, traced(function, *columns)).failures
    assert [failure.message for failure in failures] == messages


def test_without_a_row_that_is_wrong_there_is_nothing_to_explain() -> None:
    function, columns = WRONG["it is the gradient of y"]
    assert explain(traced(function, *columns), 0, [], [0, 1, 2]) is None


def test_of_rows_that_are_dear_none_is_looked_at() -> None:
    function, columns = WRONG["it is the gradient of y"]
    m = traced(function, *columns)
    assert explain(m, 0, [0, 1, 2], []) is not None
    vars(m)["dear"] = True  # a cached fact
    assert explain(m, 0, [0, 1, 2], []) is None
