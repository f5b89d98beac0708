"""PyTorch end to end: found in every form, traced to certificates, held to torch's own habits."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.conftest import FIXTURES, RIGHT, Run, check_json

pytestmark = [pytest.mark.slow, pytest.mark.needs("torch")]  # each is a whole run

MODEL = "fixtures/torch/habits/model.py"


def habits() -> Run:
    """All of the file's Functions: one run for several tests."""
    return check_json(MODEL)


def named() -> Run:
    """What the file has under other names than its Functions."""
    return check_json(f"{MODEL}:cube", f"{MODEL}:naive", f"{MODEL}:rests_on_the_opaque")


def test_the_branch_that_is_taken_on_the_wrong_variable_has_its_interval() -> None:
    """The backward tests log(1 + exp(x)) > 2, so from x = log(e² − 1) on it is wrong."""
    (found,) = (f for f in check_json("fixtures/torch/wrong.py").findings("BranchVariable") if f["severity"] == "error")  # fmt: skip
    assert found["boundary"][0]["from"] == pytest.approx(1.8545865, abs=1e-6)


def test_a_function_is_found_by_its_class_its_apply_and_as_a_plain_one() -> None:
    assert (habits().gradient("Cube")["line"], habits().gradient("Cube")["verdict"]) == (7, "correct")  # fmt: skip
    assert named().gradient("Cube")["verdict"] == "correct"
    assert named().gradient("naive")["kind"] == "function"
    assert "non-finite-value" in {f["rule"] for f in named().findings("naive")}


def test_a_function_is_judged_by_the_rules_it_rests_on() -> None:
    run = check_json("fixtures/torch/wrong.py:rests_on_it")
    (found,) = (f for f in run.findings() if f["severity"] == "error")
    assert found["rule"] == "gradient-mismatch"
    assert "rules that it calls" in found["message"]
    assert "2 times" in found["message"]


def test_a_wrong_rule_is_found_where_nothing_can_be_traced() -> None:
    for run, name in ((habits(), "Opaque"), (named(), "rests_on_the_opaque")):
        assert run.gradient(name)["evidence"] in ("finite-difference", "float64")
        assert {f["rule"] for f in run.findings(name) if f["severity"] == "error"}, name


def test_where_tracing_fails_the_ladder_says_so() -> None:
    gradient = habits().gradient("ByNumpy")
    assert gradient["verdict"] == "correct"
    assert gradient["evidence"] == "finite-difference"
    assert "could not be traced over the reals" in gradient["reason"]


def test_a_gradient_edited_by_a_hook_is_named() -> None:
    assert any("register_hook" in item["gradient"] for item in habits().report["not_covered"])


def test_shapes_that_the_rule_does_not_mean_are_not_held_against_it() -> None:
    gradient = habits().gradient("Quadratic")
    assert gradient["verdict"] == "correct"
    matrix, vector = [i["shape"] for i in gradient["inputs"]][:2]
    assert matrix == [*vector, *vector]


def test_a_file_of_both_frameworks_is_checked_for_both() -> None:
    report = check_json("fixtures/torch/habits/both.py").report
    assert {(g["name"], g["framework"], g["verdict"]) for g in report["gradients"]} == {
        ("twice", "jax", "correct"),
        ("Thrice", "torch", "wrong"),
    }


def test_torch_is_not_imported_for_a_file_that_does_not_use_it(project: Path) -> None:
    broken = project / "shadow" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('nobody asked for torch')\n")
    (project / "model.py").write_text(RIGHT)
    run = check_json("model.py", cwd=project, env={"PYTHONPATH": str(project / "shadow")})
    assert run.report["summary"]["checked"] == 1
    assert run.report["tool"]["torch"] is None


def test_a_reference_is_differentiated_instead_of_the_forward(project: Path) -> None:
    """Forward runs where nothing can be traced; the plain function named in the settings can."""
    settings = project / "pyproject.toml"
    settings.write_text('[tool.cgcheck.references]\nOpaque = "plain:square"\n')
    (project / "plain.py").write_text("def square(x):\n    return x * x\n")
    (project / "model.py").write_text((FIXTURES / "torch/habits/model.py").read_text())
    run = check_json("model.py:Opaque", cwd=project)
    assert run.gradient("Opaque")["evidence"] == "float64"
    assert any("1/2 times" in f["message"] for f in run.findings("Opaque"))
    settings.write_text('[tool.cgcheck.references]\nOpaque = "plain:gone"\n')
    run = check_json("model.py:Opaque", cwd=project)
    assert any("plain:gone" in f["message"] for f in run.report["findings"])


INSTANCES = """
    import torch

    def make(act, slope):
        class _Gate(torch.autograd.Function):
            @staticmethod
            def forward(ctx, value, gate):
                ctx.save_for_backward(value, gate)
                return value * act(gate)

            @staticmethod
            def backward(ctx, g):
                value, gate = ctx.saved_tensors
                return g * act(gate), g * value * slope(gate)

        def gated(value, gate):
            return _Gate.apply(value, gate)

        return gated

    by_sine = make(torch.sin, torch.cos)
    by_cosine = make(torch.cos, torch.sin)
    """


def test_functions_of_a_factory_go_by_the_names_of_the_module(project: Path) -> None:
    (project / "model.py").write_text(textwrap.dedent(INSTANCES))
    run = check_json(str(project / "model.py"), cwd=project)
    verdicts = {g["name"]: g["verdict"] for g in run.report["gradients"]}
    assert verdicts == {"by_sine": "correct", "by_cosine": "wrong"}


SOLVES = """
    import torch

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, A, B):
            X = torch.linalg.solve(A, B)
            ctx.save_for_backward(A, X)
            return X

        @staticmethod
        def backward(ctx, gX):
            A, X = ctx.saved_tensors
            lam = torch.linalg.solve(A, gX)
            return -lam @ X.mT, lam
    """


def test_points_at_which_a_function_raises_are_left_out(project: Path) -> None:
    """It solves with A instead of its transpose; at singular matrices it raises."""
    (project / "model.py").write_text(textwrap.dedent(SOLVES))
    run = check_json(str(project / "model.py"), cwd=project)
    assert run.gradient("Solve")["verdict"] == "wrong"
    assert "internal-error" not in {f["rule"] for f in run.findings("Solve")}


def test_a_derivative_that_another_file_registers_is_found(project: Path) -> None:
    files = {
        "pyproject.toml": "",
        "ops/__init__.py": "",
        "ops/square.py": """
            import torch

            @torch.library.custom_op("cgcheck_test::square", mutates_args=())
            def square(x: torch.Tensor) -> torch.Tensor:
                return x * x
            """,
        "ops/grads.py": """
            import torch
            from .square import square

            def pull(ctx, g):
                (x,) = ctx.saved_tensors
                return x * g

            def keep(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            torch.library.register_autograd("cgcheck_test::square", pull, setup_context=keep)
            """,
    }
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(textwrap.dedent(text))
    run = check_json("ops", cwd=project)
    assert run.gradient("square")["verdict"] == "wrong"
    assert not run.report["not_covered"]


def test_a_rule_that_raises_when_differentiated_twice_is_not_told_that_it_is_wrong_there() -> None:
    rules = {f["rule"] for f in check_json("fixtures/torch/right.py").findings("FirstOrderOnly")}
    assert "wrong-second-derivative" not in rules
    wrong = check_json("fixtures/torch/wrong.py").findings("ConstantForTheSecond")
    assert "wrong-second-derivative" in {f["rule"] for f in wrong}


def test_a_trace_that_loses_a_small_write_is_not_believed(project: Path) -> None:
    text = """
        import torch


        class Nudged(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.clone()
                y.T[0].mul_(1.0001)
                return y

            @staticmethod
            def backward(ctx, grad):
                return grad
        """
    (project / "nudged.py").write_text(textwrap.dedent(text), encoding="utf-8")
    run = check_json("nudged.py", cwd=project)
    assert run.gradient("Nudged")["evidence"] == "float64"
    assert {f["rule"] for f in run.findings("Nudged")} == {"approximate-rule"}


def test_a_trace_that_computes_in_narrow_floats_is_believed(project: Path) -> None:
    text = """
        import torch


        class Half(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                h = x.to(torch.bfloat16)
                ctx.save_for_backward(h)
                return torch.sigmoid(h).to(x.dtype)

            @staticmethod
            def backward(ctx, grad):
                (h,) = ctx.saved_tensors
                s = torch.sigmoid(h)
                return (grad.to(torch.bfloat16) * s * (1 - s)).to(grad.dtype)
        """
    (project / "half.py").write_text(textwrap.dedent(text), encoding="utf-8")
    assert check_json("half.py", cwd=project).gradient("Half")["evidence"] == "certified"
