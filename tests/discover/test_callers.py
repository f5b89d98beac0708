"""Functions of a module that call another one with a function of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.discover.callers import caller

MODEL = """
def solve(f, x):
    return solve(f, x)

def fwd(f, x):
    return solve(step, x)

def bwd(f, x, g):
    return solve(lambda x: x, g)

solve.defvjp(fwd, bwd)

def passes_it_on(f, x):
    return solve(f, x)

def root(x):
    return solve(lambda y: y / 2, x)

def applied(x):
    return Op.apply(root, x)

def made(f):
    return f

def uses():
    return made(numpy.sin)

def halved(g, x):
    return halved(g, x)

def halves(x):
    half = lambda y: y / 2
    return halved(half, x)

def nested(g, x):
    return nested(g, x)

def nests(x):
    def half(y):
        return y / 2
    return nested(half, x)
"""


@pytest.mark.parametrize(
    ("qualname", "expected"),
    [
        ("solve", "root"),
        ("Op", "applied"),
        ("made.<locals>.inner", "uses"),
        ("root", ""),
        ("halved", "halves"),
        ("nested", "nests"),
    ],
)
def test_the_first_that_gives_a_function_is_named(
    qualname: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    assert caller(str(path), qualname) == expected


def test_what_cannot_be_read_calls_nothing(tmp_path: Path) -> None:
    assert caller(str(tmp_path / "gone.py"), "solve") == ""
