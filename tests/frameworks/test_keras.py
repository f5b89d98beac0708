"""Keras end to end: each file on every backend, in its own worker, and the backends compared."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import check_json

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("keras", "tensorflow", "torch"),
]  # each is a whole run

BACKENDS = ["jax", "tensorflow", "torch"]


def on(run: Any, name: str) -> dict[str, dict[str, Any]]:
    return {g["backend"]: g for g in run.report["gradients"] if g["qualname"] == name}


def findings(run: Any, name: str) -> list[dict[str, Any]]:
    return [f for f in run.report["findings"] if f["gradient"] == name]


def test_the_portable_form_is_the_same_story_on_every_backend() -> None:
    run = check_json("fixtures/keras/seeds.py")
    each = on(run, "log1pexp")
    assert list(each) == BACKENDS
    assert {(g["verdict"], g["evidence"]) for g in each.values()} == {("unstable", "certified")}
    (value,) = (f for f in findings(run, "log1pexp") if f["rule"] == "non-finite-value")
    assert value["backends"] == BACKENDS
    assert value["boundary"][0]["from"] == 88.72284
    assert value["fix"] == "ops.softplus(x)"
    assert value["cause"]["expression"] == "ops.exp(x)"
    (repaired,) = (f for f in findings(run, "log1pexp") if f["rule"] == "repaired-autodiff")
    assert (repaired["witness"]["custom"], repaired["witness"]["auto"]) == (1.0, "nan")


@pytest.mark.parametrize(
    ("name", "failing"),
    [("log1pexp_of_two", ["torch"]), ("log1pexp_of_torch", ["jax", "tensorflow"])],
)
def test_a_form_for_some_backends_is_told_with_the_portable_one(
    name: str, failing: list[str]
) -> None:
    run = check_json("fixtures/keras/seeds.py")
    (found,) = (f for f in findings(run, name) if f["rule"] == "backend-dependent-rule")
    assert found["backends"] == failing
    assert "def grad(*args, upstream=None)" in found["help"]
    verdicts = {backend: g["verdict"] for backend, g in on(run, name).items()}
    assert {b for b, verdict in verdicts.items() if verdict == "wrong"} == set(failing)


def test_a_forgotten_grad_function_is_told_where_keras_says_nothing() -> None:
    run = check_json("fixtures/keras/wrong.py")
    told = {tuple(f["backends"]): f["message"] for f in findings(run, "forgotten")}
    assert "it returns no grad function" in told["jax", "tensorflow"]
    assert "on PyTorch its gradient is NaN without a word" in told[("torch",)]


def test_several_outputs_are_what_keras_cannot_do_on_pytorch() -> None:
    run = check_json("fixtures/keras/several.py")
    verdicts = {backend: g["verdict"] for backend, g in on(run, "two_outputs").items()}
    assert verdicts == {"jax": "correct", "tensorflow": "correct", "torch": None}
    (left,) = run.report["not_covered"]
    assert "the cotangents of several outputs on PyTorch, which is not here" in left["reason"]


def test_right_rules_are_certified_on_every_backend() -> None:
    report = check_json("fixtures/keras/right.py").report
    assert report["summary"]["checked"] == len(report["gradients"]) == 8 * 3
    assert {g["verdict"] for g in report["gradients"]} == {"correct"}
    assert {g["evidence"] for g in report["gradients"]} == {"certified"}
    assert report["tool"]["keras"].startswith("3.")


def test_one_backend_can_be_chosen(project: Path) -> None:
    (project / "model.py").write_text(
        "from keras import ops\n\n\n"
        "@ops.custom_gradient\n"
        "def sine(x):\n"
        "    return ops.sin(x), lambda upstream: upstream * ops.cos(x)\n"
    )
    run = check_json("model.py", "--backend", "jax", cwd=project)
    assert [g["backend"] for g in run.report["gradients"]] == ["jax"]
    assert run.code == 0
    (project / "pyproject.toml").write_text('[tool.cgcheck]\nbackend = ["tensorflow"]\n')
    run = check_json("model.py", cwd=project)
    assert [g["backend"] for g in run.report["gradients"]] == ["tensorflow"]
    (project / "pyproject.toml").write_text('[tool.cgcheck]\nbackend = ["theano"]\n')
    assert check_json("model.py", cwd=project).code == 2


def test_seed_generators_draw_the_same_in_every_call() -> None:
    report = check_json("fixtures/keras/draws.py").report
    assert [g["verdict"] for g in report["gradients"]] == ["correct"] * 3


AROUND = """
    from keras import ops

    def pool(x, lengths):
        \"\"\"Mean of the first steps: x (batch, time), lengths (batch,) integers.\"\"\"
        steps = ops.expand_dims(ops.arange(x.shape[1]), 0)
        weight = ops.cast(steps < ops.expand_dims(ops.cast(lengths, "int32"), 1), x.dtype)

        @ops.custom_gradient
        def _pool(x):
            def grad(*args, upstream=None):
                dy = args[-1] if upstream is None else upstream
                return weight * ops.expand_dims(dy, 1)

            return ops.sum(weight * x, axis=1), grad

        return _pool(x)
    """


def test_a_rule_that_closes_over_arrays_is_certified_on_every_backend(project: Path) -> None:
    (project / "model.py").write_text(textwrap.dedent(AROUND))
    run = check_json(str(project / "model.py"), cwd=project)
    each = on(run, "pool")
    assert {(b, g["verdict"], g["evidence"]) for b, g in each.items()} == {
        (b, "correct", "certified") for b in BACKENDS
    }
