"""What made a custom gradient is called again, with other plain arguments."""

from __future__ import annotations

import importlib.util
import sys
import unittest.mock
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.factories import call_factory, enter
from gradcheck_cli.discover.makers import Call, Construction, Maker, Setting, construction
from gradcheck_cli.subject.user_code import UserCodeError
from tests.discover.test_factories import module_of

MODULE = """
MADE = []

class Loss:
    def __init__(self, width, alpha=0.5, mode="mean", hook=None):
        if alpha < 0:
            raise ValueError("alpha")
        self.alpha, self.mode, self.width = alpha, mode, width

    def rule(self, power: int = 2):
        MADE.append((self.width, self.alpha, self.mode, power))
        return lambda x: MADE.append("called")
"""


def entered() -> tuple[Any, Maker]:
    module = module_of(MODULE)
    maker = enter(module, "Loss.rule", [np.tanh]).maker
    assert maker is not None
    return module, maker


def test_settings_are_the_plain_arguments_of_both_calls() -> None:
    _, maker = entered()
    assert {n: s.value for n, s in maker.settings.items()} == {
        "power": 2, "width": maker.settings["width"].value, "alpha": 0.5, "mode": "mean", "hook": None,
    }  # fmt: skip
    assert maker.settings["power"] == Setting(2, "int")
    assert maker.settings["width"].guessed
    assert type(maker.settings["width"].value) in (int, float)


def make_balance(origin: Any, n_stations: int, steps: int) -> tuple[Any, int, int]:
    return origin, n_stations, steps


def test_a_count_of_what_a_table_names_is_no_setting() -> None:
    origin = np.array([0, 2, 1], np.int32)
    assert set(Call(make_balance, (origin, 3, 7)).settings) == {"steps"}
    assert set(Call(make_balance, (None, 3, 7)).settings) == {"origin", "n_stations", "steps"}
    assert set(Call(make_balance, (origin, 4, 3)).settings) == {"n_stations", "steps"}
    assert set(Call(make_balance, (np.array([-1, -1]), 0, 7)).settings) == {"n_stations", "steps"}
    assert set(Call(make_balance, ([0, 0, 1, 2], 3, 7)).settings) == {"steps"}
    assert "n_stations" in Call(make_balance, ((2, 2), 3, 7)).settings  # which may be a stride
    beside = Call(lambda table, widths, n_nodes: table, (np.array([0, 1, 2]), [16, 8], 3))
    assert "n_nodes" not in beside.settings


def test_a_constructors_count_may_be_what_a_table_of_the_method_names() -> None:
    class Slates:
        def __init__(self, num_items: int, width: int) -> None:
            self.num_items = num_items

        def bind(self, slate: Any) -> Any:
            return lambda x: x

    made = Call(Slates, (3, 3))
    bound = Call(Slates(3, 3).bind, (np.array([0, 2, 1]),))
    settings = Maker(bound, Construction(Slates(3, 3), made)).settings
    assert {n: s.counts_places for n, s in settings.items()} == {"num_items": True, "width": False}


@pytest.mark.needs("torch")
def test_a_tensor_that_no_array_can_be_made_of_names_no_places() -> None:
    import torch

    learned = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    assert set(Call(make_balance, (learned, 3, 7)).settings) == {"n_stations", "steps"}


def test_it_is_made_again_with_others_and_what_it_gives_is_called() -> None:
    module, maker = entered()
    module.MADE.clear()
    maker.again({"alpha": 0.25, "power": 3})
    (_, alpha, mode, power), *calls = module.MADE
    assert (alpha, mode, power) == (0.25, "mean", 3)
    assert set(calls) == {"called"}


def test_an_object_that_cannot_be_made_so_says_why() -> None:
    _, maker = entered()
    with pytest.raises(UserCodeError, match="alpha"):
        maker.again({"alpha": -1.0})


def test_a_factory_that_raises_after_it_made_the_rule_may_be_called_again() -> None:
    calls: list[float] = []

    def factory(x: Any, slope: float = 1.0) -> None:
        calls.append(slope)
        raise ValueError("no such shape")

    maker = call_factory(factory, []).maker
    assert maker is not None
    calls.clear()
    maker.again({"slope": 0.75})
    assert calls == [0.75]


def test_a_constructor_without_a_signature_has_no_settings() -> None:
    made = construction(dict)
    assert made is None or made.call.settings == {}


EXAMPLE = """
class Arm:
    '''An arm.

    >>> arm = Arm([0.25, 0.5], "RP")
    '''

    def __init__(self, lengths, joints):
        if len(lengths) != len(joints):
            raise ValueError("one letter a joint")
        self.lengths = lengths
"""


def test_examples_of_a_docstring_are_calls_as_those_of_the_file_are(tmp_path: Path) -> None:
    (tmp_path / "arms.py").write_text(EXAMPLE)
    spec = importlib.util.spec_from_file_location("arms", tmp_path / "arms.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.dict(sys.modules, arms=module):
        assert spec.loader is not None
        spec.loader.exec_module(module)
        made = construction(module.Arm)
    assert made is not None
    assert made.call.arguments == ([0.25, 0.5], "RP")
    settings = {name: setting.value for name, setting in made.call.settings.items()}
    assert settings == {"lengths": (0.25, 0.5), "joints": "RP"}


def make_confidence(class_mask=None, width=3):
    """Makes a confidence.

    Args:
      class_mask: optional 0/1 sequence of length C.
    """
    return lambda x: x, class_mask, width


def test_what_may_be_left_out_is_an_array_where_no_argument_tells_other_sizes() -> None:
    for call in (Call(make_confidence, ()), Call(make_confidence, (None,))):
        array = call.settings["class_mask"].array
        assert (array.dtype, array.shape) == (bool, (4,))
    assert Call(make_confidence, (None, 5)).settings["class_mask"].array is None
