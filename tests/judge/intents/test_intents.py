"""Declared deviations: text, laws of their own, and what a declaration changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.project.comments import parse as parse_comments
from gradcheck_cli.project.intent_specs import Declared, IntentError, parse
from tests.conftest import check_json


def test_several_stand_in_one_comment() -> None:
    found = parse("expect(scaled=-1.0), expect(zero: alpha) expect(domain: x in (0, 1])")
    assert found == [
        Declared("scaled", "-1.0"),
        Declared("zero", "alpha"),
        Declared("domain", "x in (0, 1]"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expect(straight-trough)", "did you mean `straight-through`"),
        ("expect(scaled=2x)", "`2x` is no number"),
        ("expect(zero)", "wants an argument"),
        ("expect(clipped: 1)", "takes nothing more"),
        ("expect(safe-at: 0)", "wants a place"),
        ("expect(domain: x near 0)", "write `in"),
        ("expect straight-through", "write `expect"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(IntentError) as caught:
        parse(text)
    assert said in str(caught.value)


@pytest.mark.slow
def test_declared_deviations_are_intended() -> None:
    run = check_json("fixtures/intents/declared.py")
    verdicts = {g["name"]: g["verdict"] for g in run.report["gradients"]}
    intended = {name for name, verdict in verdicts.items() if verdict == "intended"}
    assert intended == {
        "rounded", "spike", "reversed_gradient", "clipped", "frozen", "reversed_by", "projected",
        "basis", "frame", "polar",
    }  # fmt: skip
    assert verdicts["root"] == "correct"
    assert verdicts["twice_rounded"] == "wrong"


def test_inputs_and_intents_stand_in_one_comment() -> None:
    said = parse_comments(
        "def f(a):  # cgcheck: a=f32[n n], expect(gauge), b=i32[n] in 0..n  # x\n"
    )
    assert [s.text for s in said.inputs] == ["a=f32[n n], b=i32[n] in 0..n"]
    assert [s.text for s in said.expects] == ["expect(gauge)"]
    assert not said.malformed


@pytest.mark.slow
def test_a_gauge_is_offered_where_it_holds(tmp_path: Path) -> None:
    source = Path("fixtures/intents/declared.py").read_text()
    (tmp_path / "a.py").write_text(source.replace(", expect(gauge)", ""))
    run = check_json("a.py:frame", cwd=tmp_path)
    (wrong,) = [f for f in run.findings() if f["rule"] == "gradient-mismatch"]
    assert wrong["expect"] == "expect(gauge)"


@pytest.mark.slow
def test_a_domain_keeps_inputs_inside() -> None:
    (x,) = check_json("fixtures/intents/declared.py").gradient("root")["inputs"][:1]
    assert float(x["domain"].strip("[]").split(",")[0]) > 0


@pytest.mark.slow
def test_the_settings_declare_too(project: Path) -> None:
    (project / "a.py").write_text(
        "import jax\nimport jax.numpy as jnp\n\n\n"
        "@jax.custom_gradient\n"
        "def rounded(x):\n"
        "    return jnp.round(x), lambda ct: ct\n"
    )
    assert check_json("a.py", "--fail-on", "warning", cwd=project).code == 1
    (project / "pyproject.toml").write_text(
        "[tool.cgcheck.expects]\nrounded = 'expect(straight-through)'\n"
    )
    run = check_json("a.py", "--fail-on", "warning", cwd=project)
    assert (run.code, run.gradient("rounded")["verdict"]) == (0, "intended")
    (project / "pyproject.toml").write_text(
        "[tool.cgcheck.expects]\nrounded = 'expect(straight)'\n"
    )
    assert check_json("a.py", cwd=project).code == 2


OFFERS = [
    ("wrong/formula.py", "square", "expect(scaled=0.5)"),
    ("wrong/formula.py", "weighted", "expect(zero: w)"),
    ("wrong/formula.py", "clipped", "expect(clipped)"),
    ("wrong/formula.py", "wave", None),  # a sign in one of two arguments is no intent
    ("wrong/formula.py", "rms_norm", None),
    ("torch/wrong.py", "InPlace", "expect(scaled=2)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "expect"), OFFERS)
def test_what_looks_meant_is_offered_with_its_comment(
    file: str, name: str, expect: str | None
) -> None:
    errors = [f for f in check_json(f"fixtures/{file}").findings(name) if f["severity"] == "error"]
    assert {f["expect"] for f in errors} == {expect}


@pytest.mark.slow
def test_the_comment_that_is_offered_is_accepted(project: Path) -> None:
    text = (
        "import jax\n\n\n"
        "@jax.custom_vjp\n"
        "def reverse(x, alpha):{}\n"
        "    return x * x\n\n\n"
        "reverse.defvjp(lambda x, a: (x * x, (x, a)), lambda r, ct: (-2 * ct * r[0] * r[1], 0 * r[1]))\n"
    )
    (project / "a.py").write_text(text.format(""))
    (finding,) = [f for f in check_json("a.py", cwd=project).findings() if f["severity"] == "error"]
    assert finding["expect"] == "expect(scaled=-alpha)"
    (project / "a.py").write_text(text.format(f"  # cgcheck: {finding['expect']}"))
    assert check_json("a.py", cwd=project).gradient("reverse")["verdict"] == "intended"
