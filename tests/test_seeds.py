"""The whole story of log1pexp, in three spellings and without a rule."""

from __future__ import annotations

import pytest

from tests.conftest import Run, cgcheck, check_json

pytestmark = pytest.mark.slow  # each is a whole run

SPELLINGS = ("custom_gradient", "custom_vjp", "custom_jvp")
OVERFLOW = 88.72284  # the first float32 whose exponential is infinite


def finding(run: Run, rule: str) -> dict[str, object]:
    return next(f for f in run.findings("log1pexp") if f["rule"] == rule)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_formula_is_right_and_certified(spelling: str) -> None:
    gradient = check_json(f"fixtures/seeds/{spelling}.py").gradient("log1pexp")
    laws = {law["law"]: law for law in gradient["laws"]}
    assert laws["formula"]["outcome"] == "pass"
    assert laws["formula"]["evidence"] == "certified"
    assert gradient["kind"] == spelling
    assert gradient["verdict"] == "unstable"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_value_is_infinite_from_88_72284(spelling: str) -> None:
    run = check_json(f"fixtures/seeds/{spelling}.py")
    found = finding(run, "non-finite-value")
    assert found["severity"] == "error"
    assert found["boundary"][0]["from"] == OVERFLOW
    assert found["witness"]["inputs"][0]["value"] == 100.0
    assert found["witness"]["value"] == "inf"
    assert found["witness"]["value_real"] == "100"
    assert found["fix"] == "jax.nn.softplus(x)"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_autodiff_is_repaired_where_the_value_overflows(spelling: str) -> None:
    run = check_json(f"fixtures/seeds/{spelling}.py")
    found = finding(run, "repaired-autodiff")
    assert found["severity"] == "note"
    assert found["boundary"][0]["from"] == OVERFLOW
    assert (found["witness"]["custom"], found["witness"]["auto"]) == (1.0, "nan")
    assert found["witness"]["truth"] == "1"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_gradient_is_flushed_to_zero_below_16_64(spelling: str) -> None:
    run = check_json(f"fixtures/seeds/{spelling}.py")
    found = finding(run, "imprecise-gradient")
    assert found["severity"] == "note"
    assert found["boundary"][0]["to"] == pytest.approx(-16.635532, abs=1e-6)
    assert found["boundary"][0]["from_open"] is True
    assert found["witness"]["custom"] == 0.0
    assert found["witness"]["truth"].startswith("2.0611536")
    assert found["fix"] in ("dy * jax.nn.sigmoid(x)", "dx * jax.nn.sigmoid(x)")


def test_without_a_rule_autodiff_is_nan_at_100() -> None:
    run = check_json("fixtures/seeds/naive.py:log1pexp")
    gradient = run.gradient("log1pexp")
    assert (gradient["kind"], gradient["verdict"]) == ("function", "unstable")
    found = finding(run, "non-finite-gradient")
    assert found["witness"]["auto"] == "nan"
    assert found["witness"]["custom"] is None
    assert found["boundary"][0]["from"] == OVERFLOW


def test_reproduce_command_finds_the_same_thing() -> None:
    run = check_json("fixtures/seeds/custom_vjp.py")
    command = finding(run, "non-finite-value")["reproduce"]
    assert command == 'cgcheck fixtures/seeds/custom_vjp.py:log1pexp --at "x=100"'
    again = check_json("fixtures/seeds/custom_vjp.py:log1pexp", "--at", "x=100")
    assert finding(again, "non-finite-value")["witness"]["inputs"][0]["value"] == 100.0


def test_float64_moves_the_boundary() -> None:
    run = check_json("fixtures/seeds/custom_gradient.py", "--dtype", "float64")
    assert finding(run, "non-finite-value")["boundary"][0]["from"] == pytest.approx(
        709.782712893384
    )


def test_console_fits_80_columns_and_tells_the_numbers() -> None:
    run = cgcheck("fixtures/seeds/custom_gradient.py")
    assert run.code == 1
    assert max(map(len, run.out.splitlines())) <= 80
    assert "\x1b" not in run.out
    for said in (
        "88.72284",
        "jax.nn.softplus(x)",
        "formula right",
        "certified",
        "-16.6355",
        "^^^^^^^^",
    ):
        assert said in run.out
