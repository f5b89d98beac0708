"""What an import alone does not make is reached: containers, classes, factories and their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.factories import (
    Entry,
    attributes,
    call_factory,
    enter,
    enter_all,
)
from gradcheck_cli.discover.makers import Maker, instance_of
from gradcheck_cli.subject.results import Found


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

    assert call_factory(factory, [np.cos]) == Entry(invented="`cos` for `activation`")
    assert calls == [1.0]


def test_what_a_factory_returns_is_called_in_turn() -> None:
    reached: list[str] = []

    def factory() -> Callable[[Any], Callable[[Any], None]]:
        def middle(x: Any) -> Callable[[Any], None]:
            reached.append("middle")
            return lambda y: reached.append("inner")

        return middle

    assert call_factory(factory, []) == Entry()
    assert reached == ["middle", "inner"]


def test_the_last_reason_is_told_where_no_guess_works() -> None:
    def factory(width: Any) -> None:
        raise ValueError("no such width\nand more")

    assert call_factory(factory, []).reason == "ValueError: no such width"


def test_a_method_is_entered_on_an_instance() -> None:
    module = module_of(
        "SEEN = []\n"
        "class Model:\n"
        "    def __init__(self, size):\n"
        "        self.size = size\n"
        "    def build(self):\n"
        "        SEEN.append(self.size)\n"
    )
    assert enter(module, "Model.build", []) == Entry()
    assert len(module.SEEN) == 1


def test_who_makes_an_object_enters_its_constructor_once() -> None:
    module = module_of(
        "SEEN = []\n"
        "class Pool:\n"
        "    def __init__(self, window=2, pad=0):\n"
        "        SEEN.append((window, pad))\n"
    )
    entry = enter(module, "Pool.__init__", [])
    assert entry.maker is not None
    assert {name: s.value for name, s in entry.maker.settings.items()} == {"window": 2, "pad": 0}
    entry.maker.again({"pad": 1})
    assert module.SEEN == [(2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        ("gone", "`gone` is not there after the import"),
        ("breaks", "calling `breaks` with guessed arguments failed: OSError: no file"),
    ],
)
def test_a_scope_that_cannot_be_entered_says_why(scope: str, reason: str) -> None:
    module = module_of("def breaks():\n    raise OSError('no file')\n")
    assert enter(module, scope, []).reason == reason
    (missing,) = enter_all(module, "model.py", [scope], [], [], []).missing
    assert (missing.reason, missing.is_scope, missing.place.qualname) == (reason, True, scope)


FACTORIES = """
CALLS = []

def with_function(f):
    CALLS.append(f(0.0))

def with_rule(f, bwd):
    CALLS.append("never")
    f.defvjp(None, bwd)

def of_the_module(width):
    CALLS.append("never")

def decorated_itself():
    CALLS.append("entered")
"""


@pytest.fixture
def factories(tmp_path: Path) -> ModuleType:
    """A module with a file, so that the text of its functions can be read."""
    path = tmp_path / "model.py"
    path.write_text(FACTORIES)
    module = ModuleType("model")
    exec(compile(FACTORIES, str(path), "exec"), vars(module))
    return module


def test_what_is_made_meanwhile_says_which_function_was_made_up(factories: ModuleType) -> None:
    class Listening(list[Found]):
        """A list to which entering a function adds."""

        def __len__(self) -> int:
            if factories.CALLS and not super().__len__():
                self.append(Found(object(), "custom_vjp", "model.py", 5))
            return super().__len__()

        def __getitem__(self, index: Any) -> Any:
            len(self)
            return super().__getitem__(index)

    recorded = Listening()
    entries = enter_all(factories, "model.py", ["with_function"], [np.cos], recorded, [])
    assert entries.missing == []
    assert recorded[0].extra["invented"] == "`cos` for `f`"
    assert isinstance(recorded[0].extra["maker"], Maker)
    assert entries.behind("with_function.<locals>.op").invented == "`cos` for `f`"
    assert entries.behind("another.<locals>.op").invented == ""


def test_a_factory_of_rules_is_not_called(factories: ModuleType) -> None:
    (missing,) = enter_all(factories, "model.py", ["with_rule"], [np.cos], [], []).missing
    assert missing.reason == "`with_rule` takes a rule (`bwd`), and the module gives it none"
    assert factories.CALLS == []


def test_a_factory_that_the_module_calls_itself_is_not_called(factories: ModuleType) -> None:
    (missing,) = enter_all(factories, "model.py", ["of_the_module"], [], [], [12]).missing
    assert missing.reason == "the module itself calls `of_the_module`, and that did not make it"
    assert factories.CALLS == []


def test_a_function_that_is_made_itself_is_entered_all_the_same(factories: ModuleType) -> None:
    assert enter_all(factories, "model.py", ["decorated_itself"], [], [], [14]).missing == []
    assert factories.CALLS == ["entered"]


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

    assert call_factory(picky, []).reason == "ValueError: "
    assert next(count) == 40


@pytest.mark.parametrize(("makes", "invented"), [(True, "`cos` for `wave`"), (False, "")])
def test_what_was_made_up_counts_where_something_was_made(makes, invented) -> None:
    recorded = []

    def build(wave):
        if makes:
            recorded.append(wave)
        return {"sin": 1}[wave]

    assert call_factory(build, [np.cos], recorded).invented == invented
