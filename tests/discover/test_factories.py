"""What an import alone does not make is reached: containers, classes, factories and their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.factories import attributes, call_factory, enter, instance_of


def module_of(source: str) -> ModuleType:
    module = ModuleType("sample")
    exec(source, vars(module))
    return module


def test_attributes_are_looked_for_in_containers_and_classes() -> None:
    module = module_of(
        "rule = 1\n"
        "TABLE = {'a': 2}\n"
        "ROWS = [3]\n"
        "class Layer:\n"
        "    act = 4\n"
        "    half = staticmethod(abs)\n"
    )
    names = dict(attributes(module))
    assert {n: names[n] for n in ("rule", "TABLE['a']", "ROWS[0]", "Layer.act")} == {
        "rule": 1, "TABLE['a']": 2, "ROWS[0]": 3, "Layer.act": 4,
    }  # fmt: skip
    assert names["Layer.half"] is abs
    assert not any(name.startswith("__") for name in names)


def test_a_class_of_another_module_is_not_opened() -> None:
    module = module_of("from collections import OrderedDict")
    assert [name for name, _ in attributes(module)] == ["OrderedDict"]


def test_a_factory_is_called_with_what_its_name_asks_for() -> None:
    calls: list[Any] = []

    def factory(activation: Any) -> None:
        calls.append(activation(0.0))

    assert call_factory(factory, [np.cos]) is None
    assert calls == [1.0]


def test_what_a_factory_returns_is_called_in_turn() -> None:
    reached: list[str] = []

    def factory() -> Callable[[Any], Callable[[Any], None]]:
        def middle(x: Any) -> Callable[[Any], None]:
            reached.append("middle")
            return lambda y: reached.append("inner")

        return middle

    assert call_factory(factory, []) is None
    assert reached == ["middle", "inner"]


def test_the_last_reason_is_told_where_no_guess_works() -> None:
    def factory(width: Any) -> None:
        raise ValueError("no such width\nand more")

    assert call_factory(factory, []) == "ValueError: no such width"


def test_a_method_is_entered_on_an_instance() -> None:
    module = module_of(
        "SEEN = []\n"
        "class Model:\n"
        "    def __init__(self, size):\n"
        "        self.size = size\n"
        "    def build(self):\n"
        "        SEEN.append(self.size)\n"
    )
    assert enter(module, "model.py", "Model.build", []) is None
    assert len(module.SEEN) == 1


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        ("gone", "`gone` is not there after the import"),
        ("breaks", "calling `breaks` with guessed arguments failed: OSError: no file"),
    ],
)
def test_a_scope_that_cannot_be_entered_says_why(scope: str, reason: str) -> None:
    module = module_of("def breaks():\n    raise OSError('no file')\n")
    missing = enter(module, "model.py", scope, [])
    assert missing is not None
    assert (missing.reason, missing.is_scope, missing.place.qualname) == (reason, True, scope)


def test_an_instance_is_made_of_small_numbers_where_they_will_do() -> None:
    class Two:
        def __init__(self, size: int) -> None:
            self.row = [0.0] * size  # takes integers only

    class Never:
        def __init__(self) -> None:
            raise ValueError

    assert isinstance(instance_of(Two), Two)
    assert instance_of(Never) is None


def test_no_more_than_forty_guesses_are_tried() -> None:
    count = itertools.count()

    def picky(a: Any, b: Any, c: Any, d: Any) -> None:
        next(count)
        raise ValueError

    assert call_factory(picky, []) == "ValueError: "
    assert next(count) == 40
