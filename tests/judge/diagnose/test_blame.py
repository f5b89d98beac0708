"""The operation that loses the digits is named with its line and expression."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FIXTURES, check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

HEAD = "import jax\nimport jax.numpy as jnp\n\n\n"
# Body of a function of x, the finding that it must give, the expression, and what is said of it.
CASES = {
    "cancellation": ("return jnp.sqrt(x + 1) - jnp.sqrt(x)", "imprecise-value", "jnp.sqrt(x + 1) - jnp.sqrt(x)", "cancels"),
    "overflow": ("return jnp.log(1 + jnp.exp(x))", "non-finite-value", "jnp.exp(x)", "overflows in float32: it is 2.69e+43"),
    "square of a large number": ("return jnp.sqrt(jnp.square(jnp.exp(x)))", "non-finite-value", "jnp.square(jnp.exp(x))", "overflows"),
    "underflow": ("return jnp.log(jnp.exp(-x * x))", "non-finite-value", "jnp.exp(-x * x)", "underflows to 0"),
    "behind a name": ("e = jnp.cos(x)\n    d = 1 - e\n    return d / (x * x)", "imprecise-value", "1 - e", "cancels"),
    "over two lines": ("return (\n        jnp.cosh(x)\n        - jnp.sinh(x)\n    )", "non-finite-value", "jnp.cosh(x)", "overflows"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_cause_has_its_line_and_expression(project: Path, name: str) -> None:
    body, rule, expression, said = CASES[name]
    source = f"{HEAD}def f(x):\n    {body}\n"
    (project / "a.py").write_text(source)
    run = check_json("a.py:f", cwd=project)
    finding = next(f for f in run.findings() if f["rule"] == rule)
    cause = finding["cause"]
    assert cause["expression"] == expression
    assert said in cause["text"]
    assert cause["path"] == "a.py"
    line = source.splitlines()[cause["line"] - 1]
    assert expression.split()[0] in line[cause["column"] - 1 :]


def test_a_backward_pass_is_blamed_where_it_stands() -> None:
    run = check_json("fixtures/wrong/stability.py")
    (error,) = (f for f in run.findings("overflowing") if f["severity"] == "error")
    lines = (FIXTURES / "wrong" / "stability.py").read_text().splitlines()
    assert "lambda x, ct:" in lines[error["cause"]["line"] - 1]
    assert error["cause"]["expression"] == "jnp.exp(x)"


def test_the_report_shows_the_cause() -> None:
    run = check_json("fixtures/seeds/custom_gradient.py")
    causes = {f["rule"]: f["cause"] for f in run.findings() if f["cause"]}
    assert causes["imprecise-gradient"]["expression"] == "1 - 1 / (1 + e)"
    assert causes["imprecise-gradient"]["text"] == "cancels: 24 of 24 bits lost"
