"""What a factory makes twice is judged twice, by the names that the module has for its objects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest

from gradcheck_cli.discover.same_definition import distinct
from gradcheck_cli.subject.results import Missing, Place


@dataclass(frozen=True)
class Gradient:
    name: str
    place: Place


def one(line: int, qualname: str = "factory.<locals>.rule") -> tuple[object, Gradient]:
    return object(), Gradient(qualname.rpartition(".")[2], Place("model.py", line, qualname))


def named(**things: object) -> ModuleType:
    module = ModuleType("model")
    vars(module).update(things)
    return module


def test_each_definition_is_judged_once_in_the_order_of_lines() -> None:
    later, first, again = one(9, "later"), one(3), one(3)
    gradients, missing = distinct([later, first, again], named())
    assert (gradients, missing) == ([first[1], later[1]], [])


def test_objects_of_one_definition_go_by_their_own_names() -> None:
    square, cube = one(3), one(3)
    gradients, _ = distinct([square, cube], named(square=square[0], cube=cube[0]))
    assert [(g.name, g.place.qualname, g.place.definition) for g in gradients] == [
        ("cube", "cube", "factory.<locals>.rule"),
        ("square", "square", "factory.<locals>.rule"),
    ]
    assert [g.place.siblings for g in gradients] == [("square",), ("cube",)]


def test_a_wrapped_object_is_seen_under_its_wrapper() -> None:
    square, cube = one(3), one(3)
    module = named(square=[square[0]], cube=cube[0])
    gradients, _ = distinct([square, cube], module)
    assert [g.name for g in gradients] == ["cube", "square[0]"]


def test_very_many_of_one_definition_are_named_as_left_out() -> None:
    each = [one(3) for _ in range(18)]
    module = named(**{f"rule{i:02}": thing for i, (thing, _) in enumerate(each)})
    gradients, missing = distinct(each, module)
    assert len(gradients) == 16
    assert missing == [
        Missing(each[16][1].place, "2 more are made by the same definition: name those to check")
    ]


MODEL = """
def _rule(f, bwd):
    rule = custom_vjp(f)
    return rule

def _cube(x):
    return x**3

relu = _rule(lambda x: x, None)
cube = _rule(
    _cube, None
)
sine = _rule(numpy.sin, None)
TABLE = {"one": _rule(lambda x: 1, None)}
"""


@pytest.mark.parametrize(
    ("place", "name", "line"),
    [
        (Place("model.py", 9, "<lambda>", made=3), "relu", 9),
        (Place("model.py", 6, "_cube", made=3), "cube", 10),
        (Place("/site-packages/numpy.py", 3000, "sin", made=3), "sine", 13),
        (Place("model.py", 14, "<lambda>", made=3), "TABLE['one']", 14),
        (Place("model.py", 3, "<custom_vjp>", made=3), "sine", 13),
        (Place("model.py", 3, "_rule.<locals>.inner", made=3), "cube", 3),
        (Place("model.py", 6, "_cube", made=10), "_cube", 6),
    ],
)
def test_what_a_factory_made_has_the_name_that_the_module_gives_it(
    place: Place, name: str, line: int, tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    here = replace(place, path=str(path)) if place.path == "model.py" else place
    thing = object()
    module = named(**({"TABLE": {"one": thing}} if "TABLE" in name else {name: thing}))
    module.__file__ = str(path)
    (gradient,), _ = distinct([(thing, Gradient(place.qualname, here))], module)
    assert (gradient.name, gradient.place.qualname, gradient.place.line) == (name, name, line)
    assert gradient.place.path == str(path)


def test_a_wrapped_function_goes_by_the_name_of_what_it_is_wrapped_in(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def _cube(x):\n    return x**3\n\ncube = custom_vjp(_cube)\n")
    thing = object()
    module = named(_cube=len, cube=thing, alias=thing)
    module.__file__ = str(path)
    (gradient,), _ = distinct([(thing, Gradient("_cube", Place(str(path), 1, "_cube", made=4)))], module)  # fmt: skip
    assert (gradient.name, gradient.place.line) == ("cube", 1)


def test_the_object_that_has_a_name_stands_for_its_definition(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    first, second = one(3), one(3)
    module = named(cube=second[0])
    module.__file__ = str(path)
    gradients, _ = distinct([first, second], module)
    assert [g.name for g in gradients] == ["cube"]
