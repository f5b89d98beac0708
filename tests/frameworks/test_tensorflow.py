"""TensorFlow end to end: every form of its own derivatives found, traced, held to its habits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

OVERFLOW = 88.72284


def finding(run: Any, name: str, rule: str) -> dict[str, Any]:
    return next(f for f in run.findings(name) if f["rule"] == rule)


@pytest.mark.parametrize("name", ["log1pexp", "log1pexp_of_version_1"])
def test_the_story_of_log1pexp(name: str) -> None:
    run = check_json("fixtures/tensorflow/seeds.py")
    gradient = run.gradient(name)
    laws = {law["law"]: law for law in gradient["laws"]}
    assert (gradient["verdict"], gradient["evidence"]) == ("unstable", "certified")
    assert laws["formula"]["outcome"] == "pass"
    value = finding(run, name, "non-finite-value")
    assert value["boundary"][0]["from"] == OVERFLOW
    assert value["witness"]["inputs"][0]["value"] == 100.0
    assert value["witness"]["value_real"] == "100"
    assert value["fix"] == "tf.math.softplus(x)"
    assert value["cause"]["expression"] in ("tf.exp(x)", "v1.exp(x)")
    repaired = finding(run, name, "repaired-autodiff")
    assert (repaired["witness"]["custom"], repaired["witness"]["auto"]) == (1.0, "nan")
    tail = finding(run, name, "imprecise-gradient")
    assert tail["severity"] == "note"
    assert tail["boundary"][0]["to"] == pytest.approx(-16.635532, abs=1e-6)


def test_every_form_is_found_and_certified() -> None:
    report = check_json("fixtures/tensorflow/seeds.py").report
    assert report["summary"]["checked"] == len(report["gradients"]) == 11
    assert {g["evidence"] for g in report["gradients"]} == {"certified"}
    assert {g["kind"] for g in report["gradients"]} == {"custom_gradient", "RegisterGradient"}
    names = {g["qualname"] for g in report["gradients"]}
    assert {"Activation.__call__", "factory.<locals>.powered"} <= names
    assert report["tool"]["tensorflow"].startswith("2.")


def test_a_variable_is_an_argument_like_any_other() -> None:
    run = check_json("fixtures/tensorflow/seeds.py")
    inputs = run.gradient("scaled_log1pexp")["inputs"]
    assert {i["path"]: i["source"] for i in inputs}["scale"] == "a variable that it uses"
    wrong = finding(check_json("fixtures/tensorflow/wrong.py"), "wrong_for_its_variable", "gradient-mismatch")  # fmt: skip
    assert wrong["witness"]["argument"] == "factor"


def test_a_forgotten_variables_argument_is_explained() -> None:
    run = check_json("fixtures/tensorflow/wrong.py")
    told = finding(run, "forgets_its_variable", "gradient-structure")["message"]
    assert "it uses the variable factor" in told
    assert "def grad(*upstream, variables=None)" in told


def test_right_rules_are_certified() -> None:
    report = check_json("fixtures/tensorflow/right.py").report
    assert report["summary"]["checked"] == len(report["gradients"]) == 21
    assert {g["verdict"] for g in report["gradients"]} == {"correct"}
    assert {g["evidence"] for g in report["gradients"]} == {"certified"}


def test_an_input_signature_says_what_it_takes() -> None:
    (x,) = check_json("fixtures/tensorflow/right.py").gradient("of_pairs")["inputs"]
    assert (x["shape"], x["source"]) == ([3, 2], "the input signature of its tf.function")


def test_a_module_of_version_1_is_checked_eagerly_all_the_same(project: Path) -> None:
    (project / "model.py").write_text(
        "import tensorflow.compat.v1 as tf\n\n"
        "tf.disable_v2_behavior()\n\n\n"
        "@tf.custom_gradient\n"
        "def twice(x):\n"
        "    return 2.0 * x, lambda dy: 2.5 * dy\n"
    )
    run = check_json("model.py", cwd=project)
    assert "1.25 times" in finding(run, "twice", "gradient-mismatch")["message"]


def test_an_operation_without_a_translation_is_named(project: Path) -> None:
    (project / "model.py").write_text(
        "import tensorflow as tf\n\n\n"
        "@tf.custom_gradient\n"
        "def bessel(x):\n"
        "    return tf.math.special.bessel_k0(x), lambda dy: -dy * tf.math.special.bessel_k1(x)\n"
    )
    gradient = check_json("model.py", cwd=project).gradient("bessel")
    assert gradient["evidence"] != "certified"
    assert "BesselK0" in gradient["reason"]


def test_a_registered_gradient_of_no_op_is_told(project: Path) -> None:
    (project / "model.py").write_text(
        "import tensorflow as tf\n\n\n"
        "@tf.RegisterGradient('NobodysOp')\n"
        "def nobodys_grad(op, dy):\n"
        "    return dy\n"
    )
    (left,) = check_json("model.py", cwd=project).report["not_covered"]
    assert "no op has the type `NobodysOp`" in left["reason"]


def test_without_tf2jax_the_report_says_what_to_install(project: Path) -> None:
    broken = project / "shadow" / "tf2jax"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no tf2jax here')\n")
    (project / "model.py").write_text(
        "import tensorflow as tf\n\n\n"
        "@tf.custom_gradient\n"
        "def twice(x):\n"
        "    return 2 * x, lambda dy: 2 * dy\n"
    )
    run = check_json("model.py", cwd=project, env={"PYTHONPATH": str(project / "shadow")})
    assert "pip install tf2jax" in run.gradient("twice")["reason"]


LOOP = '''
import tensorflow as tf


@tf.custom_gradient
def root(x):
    """A loop that ends when the values say so."""
    square = x * x + 1.0

    def step(_, root):
        return root, (root + square / root) / 2

    def goes_on(before, root):
        return tf.reduce_any(tf.abs(before - root) > 1e-6 * root)

    _, root = tf.while_loop(goes_on, step, (2 * square, square), maximum_iterations=60)
    return root, lambda dy: dy * x / root
'''


def test_a_loop_is_run_in_a_graph(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    assert check_json("loop.py", cwd=tmp_path).gradient("root")["verdict"] == "correct"


def test_what_is_drawn_is_the_same_in_every_call() -> None:
    run = check_json("fixtures/tensorflow/draws.py")
    verdicts = {g["name"]: g["verdict"] for g in run.report["gradients"]}
    assert verdicts.pop("drawn_again") == "wrong"
    assert set(verdicts.values()) == {"correct"}
    assert {g["evidence"] for g in run.report["gradients"]} == {"certified"}
