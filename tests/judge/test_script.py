"""A finding as a script of its own: its text is run here, once for each of its forms."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from typing import Any

import jax
import msgspec
import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.frameworks.jax.script import WRITING
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf, Signature
from gradcheck_cli.judge.finding import GroundedFinding, make_finding
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.judge.script import _call, written
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.subject.results import JIT, OP_BY_OP
from tests.conftest import FIXTURES
from tests.traced import failure, fixture, gradient_of, traced

FILE = "wrong/formula"
WRONG = failure(RuleName.GRADIENT_MISMATCH)


@pytest.fixture(autouse=True)
def imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixtures' module has a name: only then a script can load what is in it; it is run in their folder."""
    monkeypatch.chdir(FIXTURES)
    monkeypatch.setitem(sys.modules, "formula", fixture(FILE))


def site_of(name: str, target: str = f"{FILE}.py") -> Site:
    return Site(f"{FILE}.py", 24, 5, 11, name, target, str(FIXTURES))


def grounded(name: str, *columns: Any, **others: Any) -> GroundedFinding:
    function = getattr(fixture(FILE), name)
    m = traced(function, *columns, cotangents=["base"], fixed=others.pop("fixed", ()))
    if JIT in others.get("modes", ()):
        m = replace(m, floats={JIT: m.floats[OP_BY_OP]})
    return make_finding(replace(WRONG, **others), m, gradient_of(function), site_of(name))


def text_of(name: str, finding: GroundedFinding, target: str = f"{FILE}.py") -> str:
    gradient = gradient_of(getattr(fixture(FILE), name))
    script = written(finding, gradient, site_of(name, target), WRITING)
    assert script.text is not None, script.reason
    return script.text


def reason_for_none(name: str, finding: GroundedFinding) -> str | None:
    script = written(finding, gradient_of(getattr(fixture(FILE), name)), site_of(name), WRITING)
    assert script.text is None
    return script.reason


def run(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "script", "__file__": __file__}
    exec(compile(text, "script.py", "exec"), scope)
    return scope


def test_the_script_shows_the_numbers_and_its_test_fails_as_the_finding_says() -> None:
    finding = grounded("square", [3.0])
    text = text_of("square", finding)
    assert text.startswith(f'"""gradient-mismatch {finding.finding.fingerprint[:8]}: it is off."""')
    scope = run(text)
    values, gradients = scope["numbers"]()
    assert (float(values[0]), float(gradients[0]), scope["TRUTH"]) == (9.0, 3.0, 6.0)
    with pytest.raises(AssertionError, match=r"3\.0 instead of 6\.0"):
        scope["test_square"]()


def test_once_the_truth_is_met_the_test_passes() -> None:
    scope = run(text_of("square", grounded("square", [3.0])).replace("TRUTH = 6.0", "TRUTH = 3.0"))
    scope["test_square"]()


def test_an_element_of_an_array_is_looked_at() -> None:
    finding = grounded("row_loss", np.array([[0.0, 2.0]]), component=1)
    text = text_of("row_loss", finding)
    assert 'leaves = [\n        jnp.asarray(np.array([0, 2]), "float32"),\n    ]' in text
    assert "got = float(gradients[0][1])" in text
    with pytest.raises(AssertionError, match="instead of"):
        run(text)["test_row_loss"]()


def test_of_a_value_the_output_is_looked_at() -> None:
    finding = grounded("cube_and_self", [2.0], what=VALUES, component=1)
    text = text_of("cube_and_self", finding)
    assert "got = float(values[1][()])" in text
    assert "TRUTH = 2.0" in text


def test_a_flag_is_written_as_it_is() -> None:
    training = [("training", Fixed(True, "True", "test"))]
    text = text_of("doubled_in_training", grounded("doubled_in_training", [1.5], fixed=training))
    assert "def call(leaf0):\n    return module.doubled_in_training(leaf0, True)" in text


def test_what_shows_only_compiled_is_compiled() -> None:
    text = text_of("square", grounded("square", [3.0], modes=(JIT,)))
    assert "found = jax.jit(run)(leaves, cotangents)" in text
    text = text_of("square", grounded("square", [3.0], modes=(OP_BY_OP,)))
    assert "found = run(leaves, cotangents)" in text


def test_a_module_is_imported_by_its_name() -> None:
    text = text_of("square", grounded("square", [3.0]), target="package.formula")
    assert "module = importlib.import_module('package.formula')" in text


def test_a_file_of_a_package_is_imported_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys.modules["formula"], "__name__", "wrong.formula")
    monkeypatch.setattr(sys.modules["formula"], "__package__", "wrong")
    text = text_of("square", grounded("square", [3.0]))
    assert "sys.path.insert(0, str(path.parents[1]))" in text
    module = run(text)["module"]
    assert (module.__name__, module.__package__) == ("wrong.formula", "wrong")
    for name in ("wrong", "wrong.formula"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("severity", "bound"), [(Severity.ERROR, "0.000345"), (Severity.WARNING, "7.63e-06")]
)
def test_the_bound_is_that_of_the_severity(severity: Severity, bound: str) -> None:
    text = text_of("square", grounded("square", [3.0], severity=severity))
    assert f"<= {bound} * abs(TRUTH)" in text


def with_signature(*arguments: tuple[str, Any], keywords: frozenset[str] = frozenset()) -> Any:
    """The finding about the square, as if it had been called so."""
    finding = grounded("square", [3.0])
    finding.measurements.subject.signature = Signature(arguments, keywords)
    return finding


def with_numbers(**numbers: Any) -> GroundedFinding:
    """The finding about the square, with other numbers, or none."""
    whole = grounded("square", [3.0])
    witness = whole.finding.witness
    assert witness is not None
    changed = msgspec.structs.replace(witness, **numbers) if numbers else None
    return replace(whole, finding=msgspec.structs.replace(whole.finding, witness=changed))


X = Leaf("x", (), "test")
ARRAY = Fixed(np.array([1, 2]), "i32[2]", "test")


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ([("x", X), ("n", OMITTED), ("axis", Fixed(-1, "-1", "test"))], "(leaf0, axis=-1)"),
        ([("x", (X,)), ("y", [Fixed("a", "'a'", "test")])], "((leaf0,), ['a'])"),
        ([("x", {"w": X, "b": Fixed(None, "None", "test")})], "({'b': None, 'w': leaf0})"),
        ([("x", X), ("at", ARRAY)], '(leaf0, jnp.asarray(np.array([1, 2]), "int64"))'),
        ([("x", X), ("f", Fixed(np.tanh, "jnp.tanh", "test"))], "(leaf0, jnp.tanh)"),
    ],
)
def test_every_argument_is_written_as_code(arguments: list[tuple[str, Any]], call: str) -> None:
    assert f"return module.square{call}" in text_of("square", with_signature(*arguments))


def test_a_keyword_is_written_as_one() -> None:
    finding = with_signature(("x", X), keywords=frozenset({"x"}))
    assert "return module.square(x=leaf0)" in text_of("square", finding)


@pytest.mark.parametrize(
    ("finding", "reason"),
    [
        (lambda: with_signature(("x", Built("Layer", tuple, (X,), ("x",)))), "an argument is Built"),
        (lambda: with_signature(("x", X), ("f", Fixed(np.tanh, "my.f", "test"))), "an argument is my.f, which has no literal"),
        (lambda: with_numbers(truth="±inf (pole)"), "the truth there is no number: ±inf (pole)"),
        (with_numbers, "it has no numbers to show"),
    ],
)  # fmt: skip
def test_why_there_is_no_script(finding: Any, reason: str) -> None:
    assert reason_for_none("square", finding()) == reason


def test_of_very_large_arrays_there_is_no_script() -> None:
    finding = grounded("row_loss", np.ones((1, 4097)))
    assert reason_for_none("row_loss", finding) == "its arrays have more than 4096 numbers"


def test_of_what_no_name_leads_to_there_is_no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = grounded("square", [3.0])
    monkeypatch.delitem(sys.modules, "formula")
    assert reason_for_none("square", finding) == "no name in its module leads to it"


def test_a_complex_argument_is_paired_from_its_parts() -> None:
    call = Signature(
        (("z", Leaf("z", (2,), "test", is_complex=True)), ("x", Leaf("x", (2,), "test")))
    )
    text = _call(gradient_of(jax.numpy.sin), call, ["a", "b", "c"], WRITING)
    assert text.endswith("(jax.lax.complex(a, b), c)")


@pytest.mark.parametrize(("truth", "said"), [("6.0", "still there"), ("3.0", None)])
def test_run_as_a_program_it_fails_while_the_fault_is_there(truth: str, said: str | None) -> None:
    text = text_of("square", grounded("square", [3.0])).replace("TRUTH = 6.0", f"TRUTH = {truth}")
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": __file__}
    with pytest.raises(SystemExit, match=said) if said else contextlib.nullcontext():
        exec(compile(text, "script.py", "exec"), scope)
