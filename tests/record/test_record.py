"""Recorded calls: kept by any command, used by later runs, read with distrust."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.contract.recorded import FloatArg, PlainArg, RecordedCall
from gradcheck_cli.project import recorded_calls
from tests.conftest import cgcheck, cgcheck_process

RULES = """
import functools
import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def blend(weights, parts, power):
    return (weights * parts["a"] ** power).sum(-1) + parts["b"]


def _fwd(weights, parts, power):
    return blend(weights, parts, power), (weights, parts)


def _bwd(power, kept, g):
    weights, parts = kept
    a = parts["a"]
    return (
        g[..., None] * a**power,
        {"a": g[..., None] * weights * power * a ** (power - 1), "b": g},
    )


blend.defvjp(_fwd, _bwd)
"""
SCRIPT = """
import jax
import jax.numpy as jnp
from rules import blend

weights = jax.nn.softmax(jnp.arange(12.0).reshape(2, 6))
print(blend(weights, {"a": jnp.ones((2, 6)), "b": jnp.zeros(2)}, 3))
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.cgcheck]\n")
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.slow
def test_what_a_script_calls_is_kept_and_used(sample: Path) -> None:
    run = cgcheck_process("record", "--", sys.executable, "script.py", cwd=sample)
    assert run.code == 0
    assert "1 way to call 1 custom gradient" in run.err
    assert run.out.startswith("[1. 1.]")
    file = sample / "cgcheck-recorded.json"
    before = file.read_bytes()
    told = cgcheck("inputs", "rules.py", cwd=sample).out
    assert "weights: float32[2 6] in simplex — a recorded call" in told
    assert "power: 3 — a recorded call" in told
    checked = cgcheck("rules.py", "--output-format", "json", cwd=sample)
    assert checked.gradient("blend")["verdict"] == "correct"
    cgcheck_process("record", "--", sys.executable, "script.py", cwd=sample)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_test_suite_is_recorded_whatever_its_outcome(sample: Path) -> None:
    (sample / "test_it.py").write_text(SCRIPT.replace("print(", "def test():\n    assert 0, ("))
    run = cgcheck_process(
        "record", "--", sys.executable, "-m", "pytest", "-q", "test_it.py", cwd=sample
    )
    assert run.code == 1
    assert list(recorded_calls.load(sample / "cgcheck-recorded.json")) == ["rules.py:blend"]


@pytest.mark.slow
def test_a_suite_that_takes_warnings_for_errors_is_recorded(sample: Path) -> None:
    (sample / "test_it.py").write_text(SCRIPT.replace("print(", "def test():\n    str("))
    (sample / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    run = cgcheck_process(
        "record", "--", sys.executable, "-m", "pytest", "-q", "test_it.py", cwd=sample
    )
    assert run.code == 0, run.output
    assert list(recorded_calls.load(sample / "cgcheck-recorded.json")) == ["rules.py:blend"]


@pytest.mark.slow
def test_a_call_that_fits_no_more_is_said(sample: Path) -> None:
    calls = {"rules.py:blend": [RecordedCall(arguments={"other": PlainArg(value=1)})]}
    recorded_calls.save(sample / "cgcheck-recorded.json", calls)
    report = cgcheck("rules.py", "--output-format", "json", cwd=sample).report
    assert any("run cgcheck record again" in item["reason"] for item in report["not_covered"])


# Wrong at one number alone, which the text of the rule does not give away.
WRONG_AT = 0.78125
TENSORFLOW = """
import tensorflow as tf


@tf.custom_gradient
def twice(x):
    return 2.0 * x, lambda g: g * tf.where(3.0 * x == 2.34375, 5.0, 2.0)
"""
AT_HOME = """
import jax
import jax.numpy as jnp


def _body(x):
    return jnp.log(x).sum() + jnp.log(1.5 - x.sum())


@jax.custom_vjp
def barrier(x):
    return _body(x)


def _bwd(x, g):
    right = jax.vjp(_body, x)[1](g)[0]
    return (jnp.where(3.0 * x[0] == 2.34375, 5.0, 1.0) * right,)


barrier.defvjp(lambda x: (_body(x), x), _bwd)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "name", "shape", "numbers"),
    [
        pytest.param(
            TENSORFLOW,
            "twice",
            [],
            [WRONG_AT],
            id="tensorflow",
            marks=pytest.mark.needs("tensorflow"),
        ),
        pytest.param(
            AT_HOME,
            "barrier",
            [3],
            [WRONG_AT, 0.125, 0.25],
            id="with a domain that is found while it runs",
        ),
    ],
)
def test_recorded_numbers_are_tried(
    source: str, name: str, shape: list[int], numbers: list[float], project: Path
) -> None:
    (project / "rules.py").write_text(source)
    number = FloatArg(dtype="float32", shape=shape, values=numbers)
    call = RecordedCall(arguments={"x": number})
    recorded_calls.save(project / "cgcheck-recorded.json", {f"rules.py:{name}": [call]})
    found = cgcheck("rules.py", "--output-format", "json", cwd=project).findings(name)
    wrong = next(f for f in found if f["rule"] == "gradient-mismatch")
    assert np.ravel(wrong["witness"]["inputs"][0]["value"])[0] == WRONG_AT


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_a_framework_that_imports_another_one_on_its_way_is_watched(sample: Path) -> None:
    (sample / "layers.py").write_text(
        "import tensorflow as tf\n\n\n@tf.custom_gradient\ndef cube(x):\n"
        "    return x**3, lambda dy: dy * 3 * x**2\n"
    )
    (sample / "run_it.py").write_text(
        "import tensorflow as tf\nimport layers\n\nlayers.cube(tf.constant([1.0, 2.0]))\n"
    )
    run = cgcheck("record", "--", sys.executable, "run_it.py", cwd=sample)
    assert "1 way to call 1 custom gradient" in run.err


def test_a_command_that_is_not_there(sample: Path) -> None:
    run = cgcheck_process("record", "--", "no-such-command", cwd=sample)
    assert run.code == 2
    assert "cannot run `no-such-command`" in run.err


@pytest.mark.slow
def test_a_command_that_calls_none(sample: Path) -> None:
    run = cgcheck_process("record", "--", sys.executable, "-c", "print(1)", cwd=sample)
    assert (run.code, run.out) == (0, "1\n")
    assert "no custom gradient" in run.err
