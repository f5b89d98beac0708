"""What explains a failure of the floats, as a report shows it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from gradcheck_cli.contract.report import Cause
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge import explanation
from gradcheck_cli.judge.diagnose.blame import Blame
from gradcheck_cli.judge.explanation import cause_of, fix_of
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.measure.components import VALUES
from tests.traced import failure, gradient_of, traced

SITE = Site("a.py", 1, 1, 2, "overflowing", "a.py", root=str(Path(__file__).parent))
NON_FINITE = failure(RuleName.NON_FINITE_VALUE, what=VALUES)


def overflowing(x):
    return jnp.log(1 + jnp.exp(x))


def test_the_operation_is_shown_below_the_project() -> None:
    m = traced(overflowing, [100.0], cotangents=["base"])
    line = overflowing.__code__.co_firstlineno + 1
    assert cause_of(NON_FINITE, m, SITE) == Cause(
        path="test_explanation.py",
        line=line,
        column=24,
        expression="jnp.exp(x)",
        text="overflows in float32: it is 2.69e+43",
        end_line=line,
        end_column=34,
    )


def test_an_operation_without_a_line_has_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "find_blame", lambda failure, m: Blame(None, "cancels"))
    m = traced(overflowing, [100.0])
    nowhere = Cause(path=None, line=None, column=None, expression=None, text="cancels")
    assert cause_of(NON_FINITE, m, SITE) == nowhere


def test_a_wrong_formula_has_no_operation_that_loses_digits_and_no_replacement() -> None:
    m = traced(overflowing, [100.0])
    wrong = failure(RuleName.GRADIENT_MISMATCH)
    assert cause_of(wrong, m, SITE) is None
    assert fix_of(wrong, m, gradient_of(overflowing)) is None


def test_where_rows_are_dear_no_operation_is_looked_for() -> None:
    m = traced(overflowing, [100.0])
    vars(m)["dear"] = True  # a cached fact
    assert cause_of(NON_FINITE, m, SITE) is None


def test_the_replacement_is_that_of_the_failing_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(m: Any, row: int, what: str) -> Any:
        return SimpleNamespace(value=f"{what} at {m.points[0][row]:g}")

    monkeypatch.setattr(explanation, "find_replacement", asked)
    fix = fix_of(NON_FINITE, traced(overflowing, [100.0]), gradient_of(overflowing))
    assert fix is not None
    assert (fix.text, fix.edits) == ("values at 100", ())
