"""What a rule raises: a name that is not there is wrong at every call, one that only some shapes leave without a value is not; nor is a gradient that is refused aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import check_json

RULE = """import jax
import jax.numpy as jnp

try:
    from fast_kernels_not_there import (
        fused,
    )
except ImportError:
    pass


@jax.custom_vjp
def scores(q, k):
    return jnp.sum(q * k, axis=-1)


def fwd(q, k):
    return scores(q, k), (q, k)


def bwd(kept, g):
    q, k = kept
    BODY


scores.defvjp(fwd, bwd)
"""
MISSING = "Δ = 'µµµ'; return g[..., None] * kk, g[..., None] * q"
BY_SHAPE = """if q.ndim == 2 and k.ndim == 2:
        spread = g[:, None]
    elif q.ndim == 3 and k.ndim == 3:
        spread = g[:, :, None]
    return spread * k, spread * q"""
IMPORTED = "return fused(q, k, g)"


UNWRITTEN = """raise NotImplementedError("for inference only")"""


def found(project: Path, body: str) -> tuple[list[str], dict[str, Any]]:
    (project / "a.py").write_text(RULE.replace("BODY", body), encoding="utf-8")
    report = check_json("a.py", cwd=project).report
    errors = [f for f in report["findings"] if f["severity"] == "error"]
    return [f["rule"] for f in errors], errors[0] if errors else {}


def test_a_name_that_is_not_there_is_shown_where_it_stands(project: Path) -> None:
    rules, error = found(project, MISSING)
    line = (project / "a.py").read_text(encoding="utf-8").splitlines()[error["line"] - 1]
    assert rules == ["undefined-name"]
    assert line[error["column"] - 1 : error["end_column"] - 1] == "kk"


@pytest.mark.parametrize("body", [BY_SHAPE, IMPORTED])
def test_what_shapes_or_what_is_installed_decide_is_no_error(project: Path, body: str) -> None:
    assert found(project, body)[0] == []


LATER = """

def load():
    global scale
    scale = 2.0
"""
CLOSED_OVER = """if q.ndim == 9:
        scale = 2.0
    def inner():
        return scale * g[..., None]
    return inner() * k, inner() * q"""
BY_HAND = 'raise NameError("no derivative by this name")'


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("return scale * g[..., None] * k, g[..., None] * q", LATER),
        (CLOSED_OVER, ""),
        (BY_HAND, ""),
    ],
)
def test_what_may_have_a_value_elsewhere_is_not_called_wrong(
    project: Path, body: str, more: str
) -> None:
    (project / "c.py").write_text(RULE.replace("BODY", body) + more, encoding="utf-8")
    run = check_json("c.py", cwd=project)
    (gradient,) = run.report["gradients"]
    assert gradient["verdict"] == "inconclusive"
    assert "undefined-name" not in {f["rule"] for f in run.report["findings"]}


def test_a_rule_that_says_that_it_is_not_written_is_no_error(project: Path) -> None:
    (project / "a.py").write_text(RULE.replace("BODY", UNWRITTEN), encoding="utf-8")
    run = check_json("a.py", cwd=project)
    (gradient,) = run.report["gradients"]
    assert gradient["reason"].endswith("it raises NotImplementedError: for inference only")
    assert (run.code, run.report["findings"]) == (2, [])


def test_what_a_rule_calls_has_to_be_written(project: Path) -> None:
    outside = RULE.replace("def bwd", f"def slope():\n    {UNWRITTEN}\n\n\ndef bwd")
    (project / "b.py").write_text(outside.replace("BODY", "return slope()"), encoding="utf-8")
    run = check_json("b.py", cwd=project)
    assert "rule-raises" in [f["rule"] for f in run.report["findings"]]
