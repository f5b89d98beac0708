"""What a factory does with its parameters, read off its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.guesses import guesses
from gradcheck_cli.discover.needs import Need, needs

FUNCTION, RULE = Need.FUNCTION, Need.RULE

FACTORIES: dict[str, tuple[str, dict[str, Need]]] = {
    "a function that is called": ("""
        def make(f, width):
            @custom_vjp
            def op(x):
                return f(x) * width
            op.defvjp(lambda x: (op(x), x), lambda x, ct: (ct,))
            return op
        """, {"f": FUNCTION}),
    "a whole rule": ("""
        def make(primal, fwd, bwd):
            rule = custom_vjp(primal)
            rule.defvjp(fwd, bwd)
            return rule
        """, {"primal": FUNCTION, "fwd": RULE, "bwd": RULE}),
    "a derivative in a backward lambda": ("""
        def make(f, df):
            rule = custom_vjp(f)
            rule.defvjp(lambda x: (f(x), x), lambda x, ct: (df(x) * ct,))
            return rule
        """, {"f": FUNCTION, "df": RULE}),
    "a derivative in a named backward": ("""
        def make(f, df):
            def backward(x, ct):
                return (df(x) * ct,)
            rule = custom_vjp(f)
            rule.defvjp(lambda x: (f(x), x), backward)
            return rule
        """, {"f": FUNCTION, "df": RULE}),
    "a jvp by its decorator": ("""
        def make(f, df):
            rule = custom_jvp(f)
            @rule.defjvp
            def jvp(primals, tangents):
                return f(*primals), df(*primals) * tangents[0]
            return rule
        """, {"f": FUNCTION, "df": RULE}),
    "a Function of torch": ("""
        def make(f, df):
            class Op(Function):
                @staticmethod
                def forward(ctx, x):
                    return f(x)
                @staticmethod
                def backward(ctx, g):
                    return g * df(ctx.x)
            return Op
        """, {"f": FUNCTION, "df": RULE}),
    "a custom gradient": ("""
        def make(f, df):
            @tf.custom_gradient
            def op(x):
                def grad(upstream):
                    return upstream * df(x)
                return f(x), grad
            return op
        """, {"f": FUNCTION, "df": RULE}),
    "what autodiff takes in the backward is a function": ("""
        def make(f):
            @custom_vjp
            def op(x):
                return solve(x)
            op.defvjp(lambda x: (op(x), x), lambda x, ct: vjp(f, x)[1](ct))
            return op
        """, {"f": FUNCTION}),
    "numbers alone": ("""
        def make(width, scale):
            return lambda x: x * width + scale
        """, {}),
}  # fmt: skip


def made(source: str, folder: Path) -> Any:
    """The function of this text, with a file to read it from."""
    path = folder / "factory.py"
    lines = source.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = "\n".join(line[indent:] for line in lines)
    path.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), names)
    return names["make"]


@pytest.mark.parametrize("name", FACTORIES)
def test_what_the_body_does_with_a_parameter(name: str, tmp_path: Path) -> None:
    source, expected = FACTORIES[name]
    assert needs(made(source, tmp_path)) == expected


def test_what_is_called_gets_a_function_and_nothing_else(tmp_path: Path) -> None:
    source = "def make(width, inner):\n    return lambda x: inner(x) * width\n"
    rows = list(guesses(made(source, tmp_path), [np.cos]))
    assert rows
    assert all(row[1] is np.cos and not callable(row[0]) for row in rows)


def test_there_is_no_guess_for_a_rule(tmp_path: Path) -> None:
    factory = made(FACTORIES["a whole rule"][0], tmp_path)
    assert list(guesses(factory, [np.cos])) == []


def test_what_has_no_source_needs_nothing_that_is_known() -> None:
    assert needs(np.sin) == {}
    assert needs(eval("lambda f: f(1)")) == {}
