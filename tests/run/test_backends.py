"""One gradient on several backends: equal findings are one, and a difference is one of its own."""

from __future__ import annotations

from gradcheck_cli.contract.report import Finding, Severity, Status, Verdict
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.run.backends import across
from tests.reports import checked, finding, gradient

ERROR = finding(message="it is twice the truth")


def on(backend: str, *findings: Finding, verdict: Verdict = Verdict.CORRECT) -> Checked:
    return checked(*findings, verdict=verdict, framework="keras", backend=backend)


def test_what_fails_everywhere_is_one_object_with_all_backends() -> None:
    first, second = across([on("jax", ERROR), on("torch", ERROR)])
    assert first.findings[0] is second.findings[0]
    assert first.findings[0].backends == ["jax", "torch"]
    assert first.findings[0].rule == "gradient-mismatch"


def test_what_fails_on_one_backend_alone_depends_on_it() -> None:
    right, wrong = across([on("jax"), on("torch", ERROR, verdict=Verdict.WRONG)])
    (only,) = wrong.findings
    assert (only.rule, only.backends) == ("backend-dependent-rule", ["torch"])
    assert only.message == "right on jax, not on torch: it is twice the truth"
    assert (right.findings, right.gradient.verdict) == ([], Verdict.CORRECT)
    assert wrong.gradient.verdict is Verdict.WRONG


def test_three_backends_are_listed_in_words() -> None:
    groups = list(across([on("jax"), on("tensorflow"), on("torch", ERROR)]))
    assert groups[2].findings[0].message.startswith("right on jax and tensorflow, not on torch")


def test_a_backend_that_fails_in_other_words_is_not_called_right() -> None:
    other = finding(message="it is three times the truth")
    first, second = across([on("jax", ERROR), on("torch", other)])
    assert [c.findings[0].rule for c in (first, second)] == ["gradient-mismatch"] * 2
    assert [c.findings[0].backends for c in (first, second)] == [["jax"], ["torch"]]


def test_a_backend_that_was_not_checked_is_not_called_right() -> None:
    unchecked = Checked(
        gradient=gradient(verdict=None, framework="keras", backend="jax", status=Status.UNCHECKED)
    )
    _, wrong = across([unchecked, on("torch", ERROR)])
    assert wrong.findings[0].rule == "gradient-mismatch"


def test_a_note_on_one_backend_stays_a_note() -> None:
    remark = finding("imprecise-gradient", severity=Severity.NOTE)
    _, noted = across([on("jax"), on("torch", remark)])
    assert noted.findings[0].rule == "imprecise-gradient"


def test_gradients_of_one_name_in_a_framework_without_backends_stay_apart() -> None:
    twice = [checked(ERROR), checked(ERROR)]
    assert list(across(twice)) == twice
