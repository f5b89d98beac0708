"""What tests of the command line's side build by hand: findings, gradients, tasks; no worker made them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Severity, Status, Verdict
from gradcheck_cli.contract.worker import Checked, Task
from gradcheck_cli.project.rule_pages import find


def finding(
    rule: str = "gradient-mismatch", line: int = 3, message: str = "it is wrong", **changes: Any
) -> Finding:
    """A finding about `f` of `a.py`."""
    plain = find(rule).finding("a.py", line, message, about="f")
    return replace(plain, **{"gradient": "f", **changes})


def note(rule: str = "redundant-rule") -> Finding:
    return finding(rule, severity=Severity.NOTE)


def gradient(
    name: str = "f", verdict: Verdict | None = Verdict.CORRECT, **changes: Any
) -> Gradient:
    """A gradient of `a.py` that was checked, unless `changes` say otherwise."""
    plain = Gradient(
        id=name, name=name, qualname=name, path="a.py", line=3, framework="jax",
        kind="custom_vjp", backend="jax", device="cpu", dtypes=["float32"], status=Status.CHECKED,
        verdict=verdict,
    )  # fmt: skip
    return replace(plain, **changes)


def checked(*findings: Finding, verdict: Verdict = Verdict.CORRECT, **changes: Any) -> Checked:
    return Checked(gradient=gradient(verdict=verdict, **changes), findings=list(findings))


def task(display: str = "a.py", **changes: Any) -> Task:
    plain = Task(
        path=f"/there/{display}", root="/there", display=display, module=None, functions=[],
        marked={}, dtypes=["float32"], points=16, seed=0, max_time=None, at=[], reach=1e9,
        device="cpu", cache=None,
    )  # fmt: skip
    return replace(plain, **changes)
