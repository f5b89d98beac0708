"""Plain values for arguments that are no arrays, within what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradcheck_cli.infer.static_values import plain_values, stated_kind
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.project.input_specs import Bounds


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        (Bounds(), [2, 1, 3]),
        (Bounds(low=2.0, text=">= 2"), [2, 3]),
        (Bounds(low=4.0, text=">= 4"), [5, 4]),
        (Bounds(low=4.0, low_open=True, text="> 4"), [6, 5]),
        (Bounds(low=1, high=3, family="integers", text="in 1..3"), [2, 1, 3]),
        (Bounds(high=0.0, high_open=True, text="< 0"), [-1, -2]),
        (
            Bounds(low=0.0, high=0.5, low_open=True, high_open=True, text="in (0, 0.5)"),
            [0.25, 0.125],
        ),
    ],
)
def test_guesses_lie_within_what_is_said(bounds: Bounds, values: list[int]) -> None:
    domains = {"power": Domain(bounds, "the docstring")} if bounds.text else {}
    clues = {"power": [Clue("its annotation `int`", kind=Kind.WHOLE)]}
    hints = Hints({}, {}, [], clues=clues, domains=domains)
    assert [fixed.value for fixed in plain_values("power", (), hints)] == values


def test_of_one_bit_nothing_is_above_zero() -> None:
    whole = [Clue("its annotation `int`", kind=Kind.WHOLE)]
    hints = Hints({}, {}, [], clues={"bits": whole, "weight_bits": whole})
    for name, values in (("bits", [8, 4, 3]), ("weight_bits", [4, 3])):
        assert [fixed.value for fixed in plain_values(name, (), hints)] == values


def test_a_tensor_that_is_called_a_scalar_is_a_number() -> None:
    tensor = Clue("its annotation `Tensor`", kind=Kind.ARRAY)
    scalar = Clue("the docstring", spec="f32[]", kind=Kind.NUMBER)
    assert stated_kind([tensor, scalar]) is Kind.NUMBER
    assert stated_kind([tensor]) is Kind.ARRAY
    assert stated_kind([replace(tensor, rank=1), scalar]) is Kind.ARRAY


def test_a_word_that_was_made_up_gives_way_to_those_that_are_known() -> None:
    made_up = Clue("the body", values=("add", "other"), kind=Kind.WORD)
    known = Clue("the docstring", values=("add", "mix"), kind=Kind.WORD)
    alone, both = (
        Hints({}, {}, [], clues={"mode": each}) for each in ([made_up], [known, made_up])
    )
    assert [f.value for f in plain_values("mode", (), alone)] == ["add", "other"]
    assert [f.value for f in plain_values("mode", (), both)] == ["add", "mix"]
