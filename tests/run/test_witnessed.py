"""The linter's findings inside of gradients: confirmed by the run, withdrawn by it, or left as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.contract.report import Cause, Edit
from gradcheck_cli.run.witnessed import _knowing
from tests.conftest import check_json
from tests.reports import finding

pytestmark = pytest.mark.slow  # whole runs

SOFTPLUS = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def log1pexp(x):
    return jnp.log(1 + jnp.exp(x))


def forward(x):
    e = jnp.exp(x)
    return jnp.log(1 + e), x


log1pexp.defvjp(forward, lambda x, ct: (ct * jax.nn.sigmoid(x),))
"""

ROOT = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def length(x):
    '''The length of x (n,), and 0 for its gradient at 0.'''
    return jnp.sqrt(jnp.sum(x * x))


def backward(kept, ct):
    x, size = kept
    return (ct * jnp.where(size > 0, x / jnp.where(size > 0, size, 1), 0),)


length.defvjp(lambda x: (length(x), (x, jnp.sqrt(jnp.sum(x * x)))), backward)
"""

BESIDE = """

def entropy(p):
    return -jnp.sum(p * jnp.log(p))
"""


def findings(project: Path, source: str, *options: str) -> list[dict[str, Any]]:
    (project / "a.py").write_text(source)
    return check_json("a.py", *options, cwd=project).findings()


def test_what_the_run_confirms_is_told_once_with_the_repair_of_every_place(project: Path) -> None:
    found = findings(project, SOFTPLUS)
    (error,) = (f for f in found if f["severity"] == "error")
    assert (error["rule"], error["pattern"]) == ("non-finite-value", "naive-softplus")
    assert sorted(edit["line"] for edit in error["edits"]) == [7, 11, 12]  # `e = …` goes
    assert "naive-softplus" not in {f["rule"] for f in found}


LOG_COSH = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def log_cosh(x):
    return jnp.log(jnp.cosh(x))


log_cosh.defvjp(lambda x: (log_cosh(x), x), lambda x, ct: (ct * jnp.tanh(x),))
"""


def test_a_repair_of_the_range_is_none_of_lost_digits(project: Path) -> None:
    found = {f["rule"]: f for f in findings(project, LOG_COSH)}
    overflows, imprecise = (found[f"{rule}-value"] for rule in ("non-finite", "imprecise"))
    assert overflows["pattern"] == imprecise["pattern"] == "naive-log-cosh"
    assert overflows["fix"].startswith("x + jax.nn.softplus(-2 * x)")
    assert imprecise["fix"] is None
    assert "if x stays near 0" in imprecise["help"]


def test_no_repair_that_is_only_sampled_takes_the_place_of_one_that_is_proved() -> None:
    def at(line: int) -> list[Edit]:
        return [Edit(line=line, column=1, end_line=line, end_column=2, text="y")]

    cause = Cause(line=3, column=1, expression="exp(x)", text="overflows", path="a.py")
    proved = finding("non-finite-gradient", cause=cause, edits=at(9), fix="y", fix_is_safe=True)
    for safe in (True, False):
        told = finding("naive-softmax", edits=at(3), fix="z", fix_is_safe=safe)
        assert _knowing(proved, told).edits == at(3 if safe else 9)


def test_what_the_run_does_not_show_is_withdrawn(project: Path) -> None:
    notes = [f for f in findings(project, ROOT) if f["withdrawn_by"]]
    assert [f["line"] for f in notes] == [16]  # in its forward; the function has a rule of its own
    assert {(f["rule"], f["severity"], f["withdrawn_by"]) for f in notes} == {
        ("root-at-zero", "note", "length")
    }
    assert all("withdrawn, for" in f["message"] for f in notes)


def test_a_function_that_nothing_ran_keeps_its_finding(project: Path) -> None:
    found = findings(project, SOFTPLUS + BESIDE)
    (told,) = (f for f in found if f["rule"] == "entropy-at-zero")
    assert (told["severity"], told["withdrawn_by"], told["line"]) == ("warning", None, 19)


def test_a_suppression_of_the_linter_is_used_in_a_run(project: Path) -> None:
    ignored = BESIDE.replace("log(p))", "log(p))  # cgcheck: ignore[entropy-at-zero] -- none is 0")
    rules = {f["rule"] for f in findings(project, SOFTPLUS + ignored)}
    assert rules.isdisjoint({"entropy-at-zero", "unused-ignore"})


def test_a_run_without_the_linters_rules(project: Path) -> None:
    found = findings(project, SOFTPLUS + BESIDE, "--ignore", "numerics")
    assert "entropy-at-zero" not in {f["rule"] for f in found}


def test_a_file_without_gradients_is_read_all_the_same(project: Path) -> None:
    found = findings(project, "import jax.numpy as jnp\n" + BESIDE)
    assert [f["rule"] for f in found] == ["no-custom-gradients", "entropy-at-zero"]


def test_a_named_function_is_judged_alone(project: Path) -> None:
    (project / "a.py").write_text(SOFTPLUS + BESIDE)
    run = check_json("a.py:log1pexp", cwd=project)
    assert "entropy-at-zero" not in {f["rule"] for f in run.findings()}
    (error,) = (f for f in run.findings() if f["severity"] == "error")
    assert (error["pattern"], error["fix"]) == ("naive-softplus", "jax.nn.softplus(x)")


IN_ITS_RULE = """import jax
import jax.numpy as jnp


def length(x):
    squares = jnp.sum(x * x)
    return jnp.where(squares > 0, jnp.sqrt(squares), 0.0)


@jax.custom_jvp
def safe_length(x):
    return length(x)


@safe_length.defjvp
def safe_length_jvp(primals, tangents):
    def again(x):
        return jnp.where(jnp.sum(x * x) > 0, jnp.sqrt(jnp.sum(x * x)), 0.0)

    return jax.jvp(again, primals, tangents)
"""


def test_what_a_rule_differentiates_itself_is_not_withdrawn(project: Path) -> None:
    told = [f for f in findings(project, IN_ITS_RULE) if f["rule"] == "where-poisons-gradient"]
    assert {f["severity"] for f in told if f["line"] == 18} == {"warning"}


def test_a_plain_function_is_told_the_expression_that_its_gradient_fails_for(project: Path) -> None:
    (project / "a.py").write_text(IN_ITS_RULE)
    run = check_json("a.py:length", cwd=project)
    (error,) = (f for f in run.findings() if f["severity"] == "error")
    assert (error["rule"], error["pattern"]) == ("non-finite-gradient", "where-poisons-gradient")
    assert (error["line"], error["help"][:26]) == (7, "put a safe value in before")
