"""A stable derivative in the user's own names."""

from __future__ import annotations

import cmath
import math
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.judge.repair.transplant import Transplant, transplanted
from gradcheck_cli.project.edits import applied
from gradcheck_cli.subject.protocol import LibraryFunction
from tests.judge.by_text import Rule, module_of

STABLE: Any = LibraryFunction(None, "m.erf(x)", "ct * m.erf(x)", lambda: None, {"m": math})
IMPORT = "import math as m\n\n\n"


def planted(
    folder: Path, source: str, *functions: str, stable: Any = STABLE, **about: Any
) -> tuple[Transplant | None, str]:
    """What is made of a source, and the source with it."""
    module = module_of(folder, source)
    code = [eval(name, vars(module)) for name in functions]
    found = transplanted(Rule(code, names=("x", "axis"), **about), stable)
    return found, source if found is None else applied(source, found.edits)


def test_what_is_kept_goes_by_the_rule_s_own_name(tmp_path: Path) -> None:
    source = f"{IMPORT}def fwd(z, axis):\n    return m.exp(z), (axis, z)\n\n\ndef bwd(saved, up):\n    n, kept = saved\n    return (up / kept,)\n"
    source = source.replace("fwd(z", "fwd(x").replace("(z)", "(x)").replace(", z)", ", x)")
    found, after = planted(tmp_path, source, "bwd", "fwd")
    assert found is not None
    assert found.text == "up * m.erf(kept)"
    assert after == source.replace("up / kept", "up * m.erf(kept)")


def test_the_only_thing_that_is_kept_may_be_the_argument(tmp_path: Path) -> None:
    source = f"{IMPORT}fwd = lambda x, axis: (m.exp(x), x)\nbwd = lambda e, g: (g / e,)\n"
    _, after = planted(tmp_path, source, "bwd", "fwd")
    assert "bwd = lambda e, g: (g * m.erf(e),)" in after


def test_an_argument_that_is_not_kept_is_kept_beside_the_rest(tmp_path: Path) -> None:
    source = f'{IMPORT}def fwd(x, axis):\n    e = m.exp(x)\n    return e, e\n\n\ndef bwd(e, g):\n    """The rule."""\n    print(e)\n    return (g / e,)\n'
    _, after = planted(tmp_path, source, "bwd", "fwd")
    assert "    return e, (e, x)\n" in after
    assert '    """The rule."""\n    e, x = e\n    print(e)\n    return (g * m.erf(x),)\n' in after


@pytest.mark.parametrize(
    ("bwd", "after"),
    [
        ("def bwd(e, g):\n    return (g / e,)", "def bwd(x, g):\n    return (g * m.erf(x),)"),
        ("bwd = lambda e, g: (g / e,)", "bwd = lambda x, g: (g * m.erf(x),)"),
        ("def bwd(e, g): return (g / e,)", "def bwd(x, g): return (g * m.erf(x),)"),
    ],
)
def test_an_argument_is_kept_in_place_of_what_only_the_old_gradient_read(
    tmp_path: Path, bwd: str, after: str
) -> None:
    source = f"{IMPORT}def fwd(x, axis):\n    e = m.exp(x)\n    return e, e\n\n\n{bwd}\n"
    _, written = planted(tmp_path, source, "bwd", "fwd")
    assert "    return e, x\n" in written
    assert after in written


def test_what_only_the_old_gradient_read_goes(tmp_path: Path) -> None:
    source = f"{IMPORT}def fwd(x, axis):\n    return m.exp(x), m.exp(x)\n\n\ndef bwd(y, g):\n    e = m.exp(y)\n    seen = m.sin(y)  # for the log\n    last = print(y)\n    kept = 2 * g\n    one = kept.write(y)\n    return (g * e / (1 + e + last + one),)\n"
    _, after = planted(tmp_path, source, "bwd", "fwd")
    assert after.endswith(
        "def bwd(y, g):\n    y, x = y\n    seen = m.sin(y)  # for the log\n    last = print(y)\n    kept = 2 * g\n    one = kept.write(y)\n    return (g * m.erf(x),)\n"
    )


@pytest.mark.parametrize(
    "bwd",
    [
        "def bwd(e, g):\n    x = e\n    return (g / x,)",
        "def bwd(e, g):\n    if e:\n        return (g,)\n    return (g / e,)",
        "def bwd(e, g):\n    return (g, e)",
        "def bwd(e, g): return (g / e, print(e))",
    ],
    ids=["the-name-is-taken", "two-ways", "two-gradients", "on-one-line"],
)
def test_a_rule_that_does_not_show_how_is_left_as_it_is(tmp_path: Path, bwd: str) -> None:
    source = f"{IMPORT}def fwd(x, axis):\n    return m.exp(x), m.exp(x)\n\n\n{bwd}\n"
    assert planted(tmp_path, source, "bwd", "fwd")[0] is None


@pytest.mark.parametrize(
    ("bwd", "more"),
    [
        ("def bwd(e, g, *, x=None):\n    return (g / e,)", ""),
        ("def bwd(e, g):\n    return (g / e,)", "other = lambda e, g: bwd(e=e, g=g)\nown = bwd\n"),
    ],
    ids=["the-name-is-a-keyword", "another-calls-it"],
)
def test_a_parameter_keeps_its_name_where_somebody_else_may_use_it(
    tmp_path: Path, bwd: str, more: str
) -> None:
    source = f"{IMPORT}def fwd(x, axis):\n    e = m.exp(x)\n    return e, e\n\n\n{bwd}\n\n\n{more}"
    _, written = planted(tmp_path, source, "bwd", "fwd")
    assert "def bwd(e, g" in written


def test_what_is_kept_has_a_name_in_the_forward_function(tmp_path: Path) -> None:
    source = f"{IMPORT}x = 3.0\n\n\ndef fwd(z, axis):\n    return m.exp(z), m.exp(z)\n\n\ndef bwd(e, g):\n    return (g / e,)\n"
    assert planted(tmp_path, source, "bwd", "fwd")[0] is None


TORCH = """
class Rule:
    def forward(ctx, x):
        e = m.exp(x)
        ctx.save_for_backward(e, {kept})
        return e

    def backward(ctx, grad):
        e, s = ctx.saved_tensors
        return grad / e
"""


@pytest.mark.parametrize(
    ("kept", "after"),
    [
        ("x", ("e, s = ctx", "erf(s)")),
        ("e", ("e, s, x = ctx", "save_for_backward(e, e, x)", "erf(x)")),
    ],
)
def test_saved_tensors(tmp_path: Path, kept: str, after: tuple[str, ...]) -> None:
    source = IMPORT + TORCH.format(kept=kept)
    _, written = planted(tmp_path, source, "Rule.backward", kind="Function")
    assert all(part in written for part in after)


@pytest.mark.parametrize(
    ("header", "cotangent"),
    [("def grad(up):", "up"), ("def grad(*args, upstream=None):", "upstream")],
)
def test_a_rule_inside_the_function_sees_the_argument(
    tmp_path: Path, header: str, cotangent: str
) -> None:
    source = f"{IMPORT}def f(x, axis):\n    {header}\n        return {cotangent} / x\n\n    return x, grad\n"
    found, _ = planted(tmp_path, source, "f", kind="custom_gradient")
    assert found is not None
    assert found.text == f"{cotangent} * m.erf(x)"


def test_a_rule_of_defjvps_takes_the_tangent_first_and_the_argument_last(tmp_path: Path) -> None:
    source = f"{IMPORT}rule = lambda t, ans, z: t / (ans + z)\n"
    _, after = planted(tmp_path, source, "rule", kind="custom_jvp")
    assert "rule = lambda t, ans, z: t * m.erf(z)\n" in after


@pytest.mark.parametrize(
    "unpacked", ["(v,), (dv,) = primals, tangents", "(v,) = primals\n    (dv,) = tangents"]
)
def test_a_tangent_rule(tmp_path: Path, unpacked: str) -> None:
    source = f"{IMPORT}def rule(primals, tangents):\n    {unpacked}\n    return v, dv / v\n"
    found, _ = planted(tmp_path, source, "rule", kind="custom_jvp")
    assert found is not None
    assert found.text == "dv * m.erf(v)"


@pytest.mark.parametrize(
    ("imported", "text", "added"),
    [
        ("import math", "g * math.erf(x)", ""),
        ("from math import exp", "g * m.erf(x)", "import math as m\n"),
        ("import cmath as m", "g * m.erf(x)", "import math as m\n"),
    ],
)
def test_modules_are_named_as_the_file_names_them(
    tmp_path: Path, imported: str, text: str, added: str
) -> None:
    source = f"import os\n{imported}\n\n\ndef f(x, axis):\n    return x, lambda g: g / x\n"
    found, after = planted(tmp_path, source, "f", kind="custom_gradient")
    assert found is not None
    assert found.text == text
    assert f"{imported}\n{added}\n\ndef f" in after
    assert cmath is not math
