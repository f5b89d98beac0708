"""What becomes of the linter's findings inside of gradients, by hand: no worker ran."""

from __future__ import annotations

import ast

import pytest

from gradcheck_cli.contract.report import Cause, Edit, Finding, Verdict
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.run.joined import join
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

SOURCE = """import jax

@custom
def f(x):
    return log(1 + exp(x))

def forward(x):
    return log(1 + exp(x)), x

f.defvjp(forward, backward)
"""
EDITS = [Edit(line=5, column=12, end_line=5, end_column=27, text="softplus(x)")]
MINE = [Edit(line=8, column=12, end_line=8, end_column=27, text="mine")]
CAUSE = Cause(path="a.py", line=8, column=16, expression="exp(x)", text="overflows")


def told(rule: str = "naive-softplus", line: int = 8) -> Finding:
    return finding(rule, line, gradient=None, edits=EDITS, fix="softplus(x)")


def overflow(fix: str | None = None) -> Finding:
    edits = MINE if fix == "mine" else []
    return finding("non-finite-value", cause=CAUSE, fix=fix, edits=edits)


def joined(of: Checked, *linted: Finding) -> File:
    tree = ast.parse(SOURCE)
    file = File("a.py", gradients=[of], linted=list(linted), tree=tree)
    join([file])
    return file


def unstable(*findings: Finding, kind: str = "custom_vjp") -> Checked:
    return checked(*findings, verdict=Verdict.UNSTABLE, line=4, kind=kind)


@pytest.mark.parametrize(("fix", "edits"), [(None, EDITS), ("softplus(x)", EDITS), ("mine", MINE)])
def test_a_correction_of_the_runs_own_stays_and_the_twin_goes_with_the_cause(
    fix: str | None, edits: list[Edit]
) -> None:
    file = joined(unstable(overflow(fix)), told(), told(line=5))
    (known,) = file.gradients[0].findings
    assert (known.pattern, known.edits, known.fix) == (
        "naive-softplus",
        edits,
        fix or "softplus(x)",
    )
    assert file.linted == []


def test_what_another_rule_tells_of_the_place_stays() -> None:
    other = told("naive-logsumexp")
    assert joined(unstable(overflow()), told(), other).linted == [other]


@pytest.mark.parametrize(("kind", "withdrawn"), [("custom_vjp", "f"), ("custom_root", None)])
def test_only_where_a_rule_stands_autodiff_does_not_go_through(
    kind: str, withdrawn: str | None
) -> None:
    root = told("root-at-zero")
    (left,) = joined(unstable(kind=kind), root).linted
    assert left.withdrawn_by == withdrawn


def test_what_stands_outside_of_every_gradient_stays_as_it_is() -> None:
    outside = told(line=1)
    assert joined(unstable(overflow()), outside).linted == [outside]
