"""PyTorch end to end: found in every form, traced to certificates, held to torch's own habits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import cgcheck, check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

OVERFLOW = 88.72284


def finding(run: Any, name: str, rule: str) -> dict[str, Any]:
    return next(f for f in run.findings(name) if f["rule"] == rule)


@pytest.mark.parametrize("name", ["Log1pExp", "Log1pExpApart"])
def test_the_story_of_log1pexp_in_both_styles(name: str) -> None:
    run = check_json("fixtures/torch/seeds.py")
    gradient = run.gradient(name)
    laws = {law["law"]: law for law in gradient["laws"]}
    assert (gradient["verdict"], gradient["evidence"]) == ("unstable", "certified")
    assert laws["formula"]["outcome"] == "pass"
    value = finding(run, name, "non-finite-value")
    assert value["boundary"][0]["from"] == OVERFLOW
    assert value["witness"]["inputs"][0]["value"] == 100.0
    assert value["witness"]["value_real"] == "100"
    assert value["fix"] == "-F.logsigmoid(-x)"
    assert value["cause"]["text"].startswith("overflows in float32")
    assert value["cause"]["expression"] == "torch.exp(x)"
    repaired = finding(run, name, "repaired-autodiff")
    assert (repaired["witness"]["custom"], repaired["witness"]["auto"]) == (1.0, "nan")
    tail = finding(run, name, "imprecise-gradient")
    assert tail["severity"] == "note"
    assert tail["boundary"][0]["to"] == pytest.approx(-16.635532, abs=1e-6)


def test_two_dozen_right_rules_are_certified() -> None:
    report = check_json("fixtures/torch/right.py").report
    assert report["summary"]["checked"] == len(report["gradients"]) == 30
    assert {g["verdict"] for g in report["gradients"]} == {"correct"}
    assert {g["evidence"] for g in report["gradients"]} == {"certified"}
    assert {g["kind"] for g in report["gradients"]} == {"Function", "custom_op"}
    assert report["tool"]["torch"].startswith("2.")


def test_the_branch_that_is_taken_on_the_wrong_variable_has_its_interval() -> None:
    """The backward tests log(1 + exp(x)) > 2, so from x = log(e² − 1) on it is wrong."""
    (found,) = (f for f in check_json("fixtures/torch/wrong.py").findings("BranchVariable") if f["severity"] == "error")  # fmt: skip
    assert found["boundary"][0]["from"] == pytest.approx(1.8545865, abs=1e-6)


def test_a_function_is_found_by_its_class_its_apply_and_as_a_plain_one(project: Path) -> None:
    (project / "model.py").write_text(
        "import torch\n\n\n"
        "class Cube(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return x**3\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return grad * 3 * x**2\n\n\n"
        "cube = Cube.apply\n\n\n"
        "def naive(x):\n"
        "    return torch.log(1 + torch.exp(x))\n"
    )
    assert check_json("model.py", cwd=project).gradient("Cube")["line"] == 4
    assert check_json("model.py:cube", cwd=project).gradient("Cube")["verdict"] == "correct"
    plain = check_json("model.py:naive", cwd=project)
    assert plain.gradient("naive")["kind"] == "function"
    assert "non-finite-value" in {f["rule"] for f in plain.findings("naive")}


def test_a_function_is_judged_by_the_rules_it_rests_on() -> None:
    run = check_json("fixtures/torch/wrong.py:rests_on_it")
    (found,) = (f for f in run.findings() if f["severity"] == "error")
    assert found["rule"] == "gradient-mismatch"
    assert "rules that it calls" in found["message"]
    assert "2 times" in found["message"]


def test_a_wrong_rule_is_found_where_nothing_can_be_traced(project: Path) -> None:
    (project / "model.py").write_text(
        "import torch\n\n\n"
        "class Opaque(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return torch.from_numpy(x.detach().numpy() ** 2)\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return grad * x\n\n\n"
        "def twice(x):\n"
        "    return 2 * Opaque.apply(x)\n"
    )
    for name in ("Opaque", "twice"):
        run = check_json(f"model.py:{name}", cwd=project)
        assert run.gradient(name)["evidence"] in ("finite-difference", "float64")
        assert {f["rule"] for f in run.findings(name) if f["severity"] == "error"}, name


def test_where_tracing_fails_the_ladder_says_so(project: Path) -> None:
    (project / "model.py").write_text(
        "import numpy as np\nimport torch\n\n\n"
        "class ByNumpy(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return torch.from_numpy(np.sin(x.detach().numpy()))\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return grad * torch.from_numpy(np.cos(x.detach().numpy()))\n"
    )
    gradient = check_json("model.py", cwd=project).gradient("ByNumpy")
    assert gradient["verdict"] == "correct"
    assert gradient["evidence"] == "finite-difference"
    assert "could not be traced over the reals" in gradient["reason"]


def test_without_torchax_the_report_says_what_to_install(project: Path) -> None:
    broken = project / "shadow" / "torchax"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no torchax here')\n")
    (project / "model.py").write_text(
        "import torch\n\n\n"
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return 2 * x\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return 2 * grad\n"
    )
    run = check_json("model.py", cwd=project, env={"PYTHONPATH": str(project / "shadow")})
    gradient = run.gradient("Twice")
    assert gradient["evidence"] == "float64"
    assert "pip install torchax" in gradient["reason"]


def test_torch_is_not_imported_for_a_file_that_does_not_use_it(project: Path) -> None:
    broken = project / "shadow" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('nobody asked for torch')\n")
    (project / "model.py").write_text(
        "import jax\n\n\n@jax.custom_jvp\ndef twice(x):\n    return 2 * x\n\n\n"
        "twice.defjvps(lambda t, y, x: 2 * t)\n"
    )
    run = check_json("model.py", cwd=project, env={"PYTHONPATH": str(project / "shadow")})
    assert run.gradient("twice")["verdict"] == "correct"
    assert run.report["tool"]["torch"] is None


def test_a_file_of_both_frameworks_is_checked_for_both(project: Path) -> None:
    (project / "model.py").write_text(
        "import jax\nimport torch\n\n\n@jax.custom_jvp\ndef twice(x):\n    return 2 * x\n\n\n"
        "twice.defjvps(lambda t, y, x: 2 * t)\n\n\n"
        "class Thrice(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return 3 * x\n\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        return 2 * grad\n"
    )
    report = check_json("model.py", cwd=project).report
    assert {(g["name"], g["framework"], g["verdict"]) for g in report["gradients"]} == {
        ("twice", "jax", "correct"),
        ("Thrice", "torch", "wrong"),
    }


def test_reports_are_the_same_byte_for_byte() -> None:
    first, second = (
        cgcheck("fixtures/torch/seeds.py", "--output-format", "json").out for _ in range(2)
    )
    assert first == second


def test_a_reference_is_differentiated_instead_of_the_forward(project: Path) -> None:
    """Forward runs where nothing can be traced; the plain function named in the settings can."""
    (project / "pyproject.toml").write_text('[tool.cgcheck.references]\nKernel = "plain:sine"\n')
    (project / "plain.py").write_text("import torch\n\n\ndef sine(x):\n    return torch.sin(x)\n")
    (project / "model.py").write_text(
        "import numpy as np\nimport torch\n\n\n"
        "class Kernel(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return torch.from_numpy(np.sin(x.detach().numpy()))\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return grad * torch.cos(x) * 1.25\n"
    )
    run = check_json("model.py", cwd=project)
    assert run.gradient("Kernel")["evidence"] == "float64"
    assert any("1.25 times" in f["message"] for f in run.findings("Kernel"))
    (project / "pyproject.toml").write_text('[tool.cgcheck.references]\nKernel = "plain:gone"\n')
    run = check_json("model.py", cwd=project)
    assert any("plain:gone" in f["message"] for f in run.report["findings"])


def test_a_gradient_edited_by_a_hook_is_named(project: Path) -> None:
    (project / "model.py").write_text(
        "import torch\n\n\n"
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return 2 * x\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return 2 * grad\n\n\n"
        "def clipped(x):\n"
        "    x.register_hook(lambda g: g.clamp(-1, 1))\n"
        "    return Twice.apply(x)\n"
    )
    left = check_json("model.py", cwd=project).report["not_covered"]
    assert any("register_hook" in item["gradient"] for item in left)


SUMMED = """
import torch


class Quadratic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x):
        ctx.save_for_backward(a, x)
        return torch.sum(x * torch.matmul(a, x))

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        return g * x[:, None] * x[None, :], g * (torch.matmul(a, x) + torch.matmul(a.T, x))
"""


def test_shapes_that_the_rule_does_not_mean_are_not_held_against_it(tmp_path: Path) -> None:
    (tmp_path / "form.py").write_text(SUMMED)
    gradient = check_json("form.py", cwd=tmp_path).gradient("Quadratic")
    assert gradient["verdict"] == "correct"
    assert [i["shape"] for i in gradient["inputs"]][:2] == [[3, 3], [3]]
