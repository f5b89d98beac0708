"""TensorFlow end to end: every form of its own derivatives found, traced, held to its habits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Run, check_json

pytestmark = [pytest.mark.slow, pytest.mark.needs("tensorflow")]  # each is a whole run


def finding(run: Run, name: str, rule: str) -> dict[str, Any]:
    return next(f for f in run.findings(name) if f["rule"] == rule)


def habits() -> Run:
    """One run for several tests, with time enough on a busy machine."""
    return check_json("fixtures/tensorflow/habits/model.py", "--max-time", "250")


def test_every_form_is_found_and_certified() -> None:
    report = check_json("fixtures/tensorflow/seeds.py").report
    assert report["summary"]["checked"] == len(report["gradients"]) == 11
    assert {g["evidence"] for g in report["gradients"]} == {"certified"}
    assert {g["kind"] for g in report["gradients"]} == {"custom_gradient", "RegisterGradient"}
    names = {g["qualname"] for g in report["gradients"]}
    assert {"Activation.__call__", "factory.<locals>.powered"} <= names


def test_a_variable_is_an_argument_like_any_other() -> None:
    run = check_json("fixtures/tensorflow/seeds.py")
    inputs = run.gradient("scaled_log1pexp")["inputs"]
    assert {i["path"]: i["source"] for i in inputs}["scale"] == "a variable that it uses"
    wrong = finding(check_json("fixtures/tensorflow/wrong.py"), "wrong_for_its_variable", "gradient-mismatch")  # fmt: skip
    assert wrong["witness"]["argument"] == "factor"


def test_a_forgotten_variables_argument_is_explained() -> None:
    run = check_json("fixtures/tensorflow/wrong.py")
    message = finding(run, "forgets_its_variable", "gradient-structure")["message"]
    assert "it uses the variable factor" in message
    assert "def grad(*upstream, variables=None)" in message


def test_an_input_signature_says_what_it_takes() -> None:
    (x,) = check_json("fixtures/tensorflow/right.py").gradient("of_pairs")["inputs"]
    assert (x["shape"], x["source"]) == ([3, 2], "the input signature of its tf.function")


def test_a_module_of_version_1_is_checked_eagerly_all_the_same() -> None:
    run = check_json("fixtures/tensorflow/habits/version_1.py")
    assert "1.25 times" in finding(run, "twice", "gradient-mismatch")["message"]


def test_an_operation_without_a_translation_is_named() -> None:
    gradient = habits().gradient("bessel")
    assert gradient["evidence"] != "certified"
    assert "BesselK0" in gradient["reason"]


def test_a_registered_gradient_of_no_op_is_told() -> None:
    reasons = [left["reason"] for left in habits().report["not_covered"]]
    assert any("no op has the type `NobodysOp`" in reason for reason in reasons)


def test_a_loop_is_run_in_a_graph() -> None:
    assert habits().gradient("root")["verdict"] == "correct"


def test_what_is_drawn_is_the_same_in_every_call() -> None:
    run = check_json("fixtures/tensorflow/draws.py")
    verdicts = {g["name"]: g["verdict"] for g in run.report["gradients"]}
    assert verdicts.pop("drawn_again") == "wrong"
    assert set(verdicts.values()) == {"correct"}
    assert {g["evidence"] for g in run.report["gradients"]} == {"certified"}
