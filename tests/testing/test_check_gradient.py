"""`check_gradient` in a unit test: silent if right, the whole report if not."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import pytest

from gradcheck_cli import check_gradient
from gradcheck_cli.project import settings
from gradcheck_cli.testing.claims import adopted
from gradcheck_cli.testing.session import LoadedSession
from tests.conftest import FIXTURES, check_json


@jax.custom_vjp
def sine(x: Any) -> Any:
    return jnp.sin(x)


sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * jnp.cos(x),))


@jax.custom_gradient
def wrong(x: Any) -> Any:
    return jnp.sin(x), lambda ct: 2 * ct * jnp.cos(x)


@jax.custom_gradient
def rounded(x: Any) -> Any:
    return jnp.round(x), lambda ct: ct


@jax.custom_gradient
def entropy(p: Any) -> Any:
    return -jnp.sum(p * jnp.log(p)), lambda ct: -ct * (jnp.log(p) + 1)


def test_a_right_one_is_silent() -> None:
    check_gradient(sine)
    check_gradient(rounded, expect="expect(straight-through)", fail_on="warning")
    check_gradient(entropy, inputs="p=f32[n] in [0.125, 8]")


def test_a_wrong_one_raises_with_the_report() -> None:
    with pytest.raises(AssertionError) as caught:
        check_gradient(wrong)
    assert "it is 2 times the truth" in str(caught.value)
    assert "tests/testing/test_check_gradient.py" in str(caught.value)


def test_what_cannot_be_checked_raises_too() -> None:
    @jax.custom_gradient
    def never(x: Any) -> Any:
        raise ValueError("not this one")

    with pytest.raises(AssertionError, match="not this one"):
        check_gradient(never)


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """A project whose comments and settings say much of its rules."""
    return shutil.copytree(FIXTURES / "declared", tmp_path / "declared")


def imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow  # each gradient is checked twice
def test_comments_and_settings_are_read_as_on_the_command_line(declared: Path) -> None:
    asked = check_json("model.py", "--ignore", "numerics", cwd=declared).report
    module = imported(declared / "model.py")
    session = LoadedSession(*settings.load(declared))
    for gradient in asked["gradients"]:
        session.check(*adopted(getattr(module, gradient["name"])))
    report = msgspec.to_builtins(session.report())
    assert report["findings"] == asked["findings"]
    assert report["tool"] == asked["tool"]
    assert report["summary"] == asked["summary"]
    assert report["gradients"] == asked["gradients"]
    assert {g["verdict"] for g in asked["gradients"]} == {"correct", "intended", "wrong"}


@pytest.mark.slow  # five checks
def test_arguments_are_stronger_than_comments_and_settings(declared: Path) -> None:
    module = imported(declared / "model.py")
    for name in ("rounded", "halted"):
        check_gradient(getattr(module, name))
    with pytest.raises(AssertionError, match=r"expect\(scaled=2\)` does not hold"):
        check_gradient(module.rounded, expect="expect(scaled=2)")
    settings = declared / "pyproject.toml"
    settings.write_text('[tool.cgcheck]\nfail-on = "never"\n')
    check_gradient(module.wrong)
    with pytest.raises(AssertionError, match="it is 2 times the truth"):
        check_gradient(module.wrong, fail_on="error")


def test_a_reference_that_is_not_there_raises(declared: Path) -> None:
    settings = declared / "pyproject.toml"
    settings.write_text('[tool.cgcheck]\nreferences = { halted = ":nothing" }\n')
    with pytest.raises(AssertionError, match="the reference `:nothing` of `halted` is not there"):
        check_gradient(imported(declared / "model.py").halted)


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = "import gradcheck_cli, sys; assert not {'jax', 'numpy', 'msgspec'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
