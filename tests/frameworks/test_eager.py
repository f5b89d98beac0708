"""What PyTorch and TensorFlow do alike, end to end: the same stories, told by one test each."""

from __future__ import annotations

import pytest

from tests.conftest import Run, cgcheck, check_json

pytestmark = [pytest.mark.slow, pytest.mark.needs("tensorflow", "torch")]  # each is a whole run

OVERFLOW = 88.72284


def finding(run: Run, name: str, rule: str) -> dict[str, object]:
    return next(f for f in run.findings(name) if f["rule"] == rule)


@pytest.mark.parametrize(
    ("framework", "name", "fix", "expression"),
    [
        ("torch", "Log1pExp", "torch.nn.functional.softplus(x)", "torch.exp(x)"),
        ("torch", "Log1pExpApart", "torch.nn.functional.softplus(x)", "torch.exp(x)"),
        ("tensorflow", "log1pexp", "tf.math.softplus(x)", "tf.exp(x)"),
        ("tensorflow", "log1pexp_of_version_1", "tf.math.softplus(x)", "v1.exp(x)"),
    ],
)
def test_the_story_of_log1pexp(framework: str, name: str, fix: str, expression: str) -> None:
    run = check_json(f"fixtures/{framework}/seeds.py")
    gradient = run.gradient(name)
    laws = {law["law"]: law for law in gradient["laws"]}
    assert (gradient["verdict"], gradient["evidence"]) == ("unstable", "certified")
    assert laws["formula"]["outcome"] == "pass"
    value = finding(run, name, "non-finite-value")
    assert value["boundary"][0]["from"] == OVERFLOW
    assert value["witness"]["inputs"][0]["value"] == 100.0
    assert value["witness"]["value_real"] == "100"
    assert value["fix"] == fix
    assert value["cause"]["text"].startswith("overflows in float32")
    assert value["cause"]["expression"] == expression
    repaired = finding(run, name, "repaired-autodiff")
    assert (repaired["witness"]["custom"], repaired["witness"]["auto"]) == (1.0, "nan")
    tail = finding(run, name, "imprecise-gradient")
    assert tail["severity"] == "note"
    assert tail["boundary"][0]["to"] == pytest.approx(-16.635532, abs=1e-6)


_UNTRACED = {"torch": {"InBatch": "the trace of its backward gives other gradients than the call"}}


@pytest.mark.parametrize(
    ("framework", "count", "kinds"),
    [
        ("torch", 37, {"Function", "custom_op"}),
        ("tensorflow", 28, {"custom_gradient", "RegisterGradient"}),
    ],
)
def test_right_rules_are_certified(framework: str, count: int, kinds: set[str]) -> None:
    report = check_json(f"fixtures/{framework}/right.py").report
    assert report["summary"]["checked"] == len(report["gradients"]) == count
    assert {g["verdict"] for g in report["gradients"]} == {"correct"}
    weaker = {g["name"]: g["reason"] for g in report["gradients"] if g["evidence"] != "certified"}
    assert weaker == _UNTRACED.get(framework, {})
    assert {g["kind"] for g in report["gradients"]} <= kinds
    assert report["tool"][framework].startswith("2.")


def test_reports_are_the_same_byte_for_byte() -> None:
    again = cgcheck("fixtures/torch/seeds.py", "--no-cache", "--output-format", "json")
    assert again.out == check_json("fixtures/torch/seeds.py").out
