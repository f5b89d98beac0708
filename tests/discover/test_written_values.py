"""Values as a file writes them; nothing of it is run but constructors of its classes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.written_calls import calls_of, tree_of
from gradcheck_cli.discover.written_values import Scope, UnreadableError
from gradcheck_cli.subject.user_code import UserCodeError
from tests.clues.test_documentation import loaded


@dataclass(frozen=True)
class Survey:
    spacing: float
    places: Any = None


Survey.__module__ = "wells"

MODULE = ModuleType("wells")
vars(MODULE).update(np=np, Survey=Survey, SIZE=4, load=lambda: 1 / 0)

FUNCTION = """
def demo(seed=3, *, scale=2.0, given):
    rng = np.random.default_rng(seed)
    nlat, nlon = 10, 18
    shape = (nlat, nlon)
    rows, columns = np.zeros(shape).shape
    twice = 1
    twice = 2
    for step in range(3):
        pass
    field = np.ones(shape) * scale
"""


def read(expression: str) -> Any:
    (function,) = ast.parse(FUNCTION).body
    assert isinstance(function, ast.FunctionDef)
    return Scope(MODULE, (function,)).value(ast.parse(expression, mode="eval").body)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-2.5", -2.5),
        ("SIZE + 1", 5),
        ("(nlat, nlon - 1, [seed])", (10, 17, [3])),
        ("{'a': scale}", {"a": 2.0}),
        ("rows * columns", 180),
        ("shape[-1]", 18),
        ("np.arange(6).reshape(2, 3)[0].tolist()", [0, 1, 2]),
        ("field.shape", (10, 18)),
        ("tuple(range(3))", (0, 1, 2)),
        ("Survey(10.0, places=(1, 2))", Survey(10.0, (1, 2))),
        ("[n + k for n in shape if n > 10 for k in range(2)]", [18, 19]),
        ("tuple(a * b for a, b in [(1, 2), (3, 4)])", (2, 12)),
        ("SIZE if scale == 2.0 else unknown", 4),
    ],
)
def test_what_is_written_is_read(expression: str, value: Any) -> None:
    assert read(expression) == value


def test_random_numbers_of_a_seed_are_those_that_the_file_would_draw() -> None:
    expected = np.random.default_rng(3).uniform(-40, 40, 60)
    assert np.array_equal(read("rng.uniform(-40, 40, 60)"), expected)


@pytest.mark.parametrize(
    "expression",
    [
        "load()", "given", "twice", "step", "unknown", "np.save('x', 1)", "np.zeros((1 << 30,))", "open('x')",
        "[n for n in given]", "{n for n in shape}", "(lambda: 1)()", "Survey(**{})", "__import__('os')", "np.zeros((2000, 2000))",
    ],
)  # fmt: skip
def test_what_would_have_to_be_run_is_not_read(expression: str) -> None:
    with pytest.raises(UnreadableError):
        read(expression)


def test_what_raises_is_the_users() -> None:
    with pytest.raises(UserCodeError):
        read("SIZE / 0")


PLANS = """
import numpy as np
import torch


class Plan:
    def __init__(self, zones, seconds):
        self.zones, self.seconds = zones, seconds


def standard(minutes=12.0, per_zone=2):
    \"\"\"The plan of every day.\"\"\"
    zones = [z for z in range(3) for _ in range(per_zone)]
    base = 60.0 * minutes / len(zones)
    return Plan(zones, [base * (0.8 if z == 1 else 1.1) for z in zones])


def drawn():
    while True:
        return Plan([0], [1.0])


class Belt:
    def __init__(self, plan, width):
        self.march = make(plan, width)

    def again(self, width):
        return make(None, width)


class Line:
    def __init__(self, plan, grid):
        self.belt = Belt(plan, width=grid)


def make(plan, width):
    return plan


def main():
    line = Line(standard(6.0), torch.linspace(0.0, 1.0, 5))
"""


@pytest.mark.needs("torch")
def test_what_is_handed_on_from_call_to_call_is_read(tmp_path: Path) -> None:
    module = loaded(tmp_path / "plans_here.py", PLANS)
    tree = tree_of(module)
    assert tree is not None
    (call, around), (again, inside) = calls_of(tree, "make")
    plan = Scope(module, around).value(call.args[0])
    assert plan.zones == [0, 0, 1, 1, 2, 2]
    assert plan.seconds == [66.0, 66.0, 48.0, 48.0, 66.0, 66.0]
    assert Scope(module, around).value(call.args[1]).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    with pytest.raises(UnreadableError):  # nobody calls the method
        Scope(module, inside).value(again.args[1])
    with pytest.raises(UnreadableError):
        Scope(module).value(ast.parse("drawn()", mode="eval").body)


TRAPS = """
import numpy as np

SIZES, ONES, k = 3, np.ones(3), 10


def size(n):
    return n + 1


class Table:
    @staticmethod
    def size(n):
        return n * 100

    def __iter__(self):
        raise ValueError("nobody goes through me")


def written():
    table = np.zeros(3)
    table[0] = 1
    return table


def moved(n):
    n = n + 1
    return n


def walk(depth, n):
    walk(depth - 1, n)
    walk(depth - 2, n)
    return size(n)


def shadowed():
    def size(n):
        return n

    twice = k * 2
    return size(3)
"""


@pytest.mark.parametrize(
    "expression",
    [
        "[k for k in SIZES]", "[a for a, b in [1, 2]]", "[k for k in [1] if ONES]", "1 if ONES else 2",
        "[k for k in Table()]", "{[1]: 2}", "Table.size(3)", "written()", "moved(3)",
        "[[0 for _ in range(2000)] for _ in range(2000)]",
    ],
)  # fmt: skip
def test_what_cannot_be_read_for_sure_is_refused(tmp_path: Path, expression: str) -> None:
    module = loaded(tmp_path / "traps_here.py", TRAPS)
    with pytest.raises((UnreadableError, UserCodeError)):
        Scope(module).value(ast.parse(expression, mode="eval").body)


def test_names_mean_what_they_mean_where_they_stand(tmp_path: Path) -> None:
    module = loaded(tmp_path / "traps_there.py", TRAPS)
    tree = tree_of(module)
    assert tree is not None
    walks, shadows = calls_of(tree, "size")
    for call, around in (walks, shadows):  # a recursion that ends, and a function within another
        with pytest.raises(UnreadableError):
            Scope(module, around).value(call.args[0] if call is walks[0] else call)
    in_turn = ast.parse("[twice for k in range(2)]", mode="eval").body
    assert Scope(module, shadows[1]).value(in_turn) == [20, 20]
