"""What may stand for one parameter, likeliest first."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from gradcheck_cli.infer.options import options, options_of_shapes
from gradcheck_cli.infer.remade import remade
from gradcheck_cli.infer.template import template
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf, Parameter, Signature
from gradcheck_cli.project.input_specs import Bounds, condition, parse
from tests.infer.fitted import NO_HINTS

X = Parameter("x", 0, differentiable=True, keyword_only=False)
PLAIN = Leaf("x", (3,), "a guess that function and rule take")
SPEC = parse("x=f32[4]")["x"]


def first(parameter: Parameter, **hints: Any) -> Any:
    return options(parameter, (3,), replace(NO_HINTS, **hints))[0]


def test_what_each_row_is_by_its_name_is_a_mask_first() -> None:
    fitted = Parameter("fitted", 0, differentiable=False, keyword_only=False)
    cast = [Clue("the body `m = ops.cast(fitted, bolts.dtype)`", kind=Kind.ARRAY)]
    assert first(fitted, clues={"fitted": cast}).value.dtype.kind == "b"
    assert not any(
        getattr(each, "text", "").startswith("bool") for each in options(fitted, (3,), NO_HINTS)[:2]
    )
    good = Parameter("good", 0, differentiable=False, keyword_only=False)
    binary = Domain(condition("x in binary")[1], "a docstring")
    assert first(good, domains={"good": binary}).value.dtype.kind == "b"
    for name in ("observed", "windspeed", "pos_embed", "simulated"):
        number = Parameter(name, 0, differentiable=True, keyword_only=False)
        declined = [Clue("the body", declined=True)]
        assert isinstance(first(number, clues={name: declined}), Leaf)
    weighted = Parameter("weighted", 0, differentiable=False, keyword_only=False)
    assert getattr(first(weighted).value, "dtype", np.dtype(float)).kind != "b"
    counted = [Clue("a docstring", kind=Kind.INTEGERS)]
    assert first(fitted, clues={"fitted": counted}).value.dtype.kind == "i"


def test_what_the_rule_gives_no_gradient_is_a_mask_by_its_name() -> None:
    billed = Parameter("billed", 0, differentiable=True, keyword_only=False)
    assert isinstance(first(billed), Leaf)
    declined = [Clue("the body", declined=True)]
    assert first(billed, clues={"billed": declined}).value.dtype.kind == "b"


def test_what_is_cast_and_gets_no_gradient_may_be_any_number() -> None:
    """A scale, a temperature: as 0 and 1 its square would be itself."""
    scale = Parameter("std", 0, differentiable=True, keyword_only=False)
    declined = [Clue("the body", declined=True)]
    assert isinstance(first(scale, clues={"std": declined}, cast=frozenset({"std"})), Leaf)


def test_a_plain_array_where_nothing_is_stated() -> None:
    assert options(X, (3,), NO_HINTS) == [PLAIN]


def test_what_the_user_specifies_is_the_only_option() -> None:
    hints = replace(NO_HINTS, specs={"x": SPEC}, spec_source="a comment", keys={"x": ["w"]})
    assert options(X, (3,), hints) == [Leaf("x", (4,), "a comment")]


def test_a_guess_from_the_text_comes_before_a_plain_array() -> None:
    assert first(X, guesses={"x": (SPEC, "the docstring")}) == Leaf("x", (4,), "the docstring")


def test_a_guess_keeps_what_said_its_domain() -> None:
    domain = Domain(Bounds(family="positive", text="positive"), "a call")
    option = first(X, guesses={"x": (SPEC, "the docstring")}, domains={"x": domain})
    assert (option.source, option.domain.source) == ("the docstring", "a call")


def test_a_declared_domain_goes_with_the_array() -> None:
    domain = Domain(Bounds(family="positive", text="positive"))
    assert first(X, domains={"x": domain}).domain == domain


def test_a_default_stays_unless_it_is_a_float() -> None:
    assert options(replace(X, default=None), (3,), NO_HINTS) == [OMITTED]
    assert options(replace(X, default=2.5), (3,), NO_HINTS) == [
        Leaf("x", (), "its default", centre=2.5),
        OMITTED,
    ]


def test_a_function_stands_for_a_callable() -> None:
    callable_ = replace(X, annotation="Callable[[jax.Array], jax.Array]")
    assert first(callable_, functions=[("tanh", np.tanh)]) == Fixed(
        np.tanh, "tanh", "its annotation", invented=True
    )


def test_what_is_not_differentiated_is_a_number_first() -> None:
    assert first(replace(X, differentiable=False)).value == 0.5
    guess = first(replace(X, differentiable=False), guesses={"x": (parse("x=7")["x"], "a text")})
    assert (guess.value, guess.source) == (7, "a text")


def test_integers_that_are_not_differentiated_are_a_table_first() -> None:
    held = replace(X, differentiable=False)
    clue = Clue("the body", kind=Kind.INTEGERS)
    assert first(
        held, clues={"x": [Clue("its annotation", kind=Kind.ARRAY), clue]}
    ).value.tolist() == [0, 2, 1]
    flags = first(held, clues={"x": [Clue("the body", kind=Kind.BOOLS)]})
    assert flags.value.dtype == bool


def test_floats_that_are_not_differentiated_have_the_shape_that_is_stated() -> None:
    held = replace(X, differentiable=False)
    given = first(held, guesses={"x": (parse("x=f32[4 2] > 0")["x"], "the docstring")})
    assert (given.value.shape, given.value.dtype, given.source) == (
        (4, 2),
        np.float32,
        "the docstring",
    )
    assert (given.value > 0).all()


def test_a_name_that_is_no_float_comes_first() -> None:
    mask = Parameter("mask", 0, differentiable=True, keyword_only=False)
    assert first(mask).value.dtype == bool


def test_integers_where_they_are_asked_for() -> None:
    assert first(X, integers=frozenset({"x"})).value.dtype == np.int32


def test_keys_and_unpackings_of_the_body_make_trees() -> None:
    keys = first(X, keys={"x": ["w", "b"]})
    assert {key: leaf.path for key, leaf in keys.items()} == {"w": "x['w']", "b": "x['b']"}
    assert [leaf.path for leaf in first(X, unpacked={"x": 2})] == ["x[0]", "x[1]"]


class Layer(NamedTuple):
    weight: Any
    axis: int


def test_an_object_of_the_annotated_class_is_built_from_its_fields() -> None:
    built = first(X, classes={"x": Layer})
    assert isinstance(built, Built)
    assert built.parts[0] == Leaf("x.weight", (3,), "a field of Layer")
    assert built.parts[1].value == -1  # annotated as int


def test_a_field_that_is_said_to_be_an_array_is_none_by_its_name() -> None:
    clues = {"x.axis": [Clue("a comment", "f32[n]", kind=Kind.ARRAY)]}

    class Spring(NamedTuple):
        axis: Any

    built = first(X, classes={"x": Spring}, clues=clues)
    assert built.parts == (Leaf("x.axis", (3,), "a field of Spring"),)


def test_fields_of_which_nothing_says_that_they_are_floats_may_be_tables() -> None:
    class Pairs(NamedTuple):
        i: Any
        j: Any
        weight: Any

    clues = {"x.weight": [Clue("a comment", "f32[n]", kind=Kind.ARRAY)]}
    built = first(X, classes={"x": Pairs}, clues=clues, integers=frozenset({"x"}))
    assert [part.path for part in built.parts] == ["x.i", "x.j", "x.weight"]
    assert [isinstance(part, Fixed) for part in built.parts] == [True, True, False]


def test_brackets_alone_do_not_say_that_something_holds_floats() -> None:
    class Dispatch(NamedTuple):
        expert: Any
        slot: Any

    clues = {
        f"x.{name}": [Clue("its docstring", "f32[t k]", kind=Kind.ARRAY)]
        for name in Dispatch._fields
    }
    integers = frozenset({"x"})
    hints = replace(NO_HINTS, classes={"x": Dispatch}, clues=clues, integers=integers)
    mixed, whole, *_ = options(X, (3,), hints)
    assert all(isinstance(part, Leaf) for part in mixed.parts)
    assert all(isinstance(part, Fixed) for part in whole.parts)


def test_what_objects_hold_stays_as_it_is_where_the_framework_does_not_differentiate_it() -> None:
    class Lines(NamedTuple):
        ends: Any
        shift: Any

    clues = {
        "x.ends": [Clue("a comment", "i32[lines]", kind=Kind.INTEGERS)],
        "x.shift": [Clue("a comment", "f32[lines]", kind=Kind.ARRAY)],
    }
    hints = replace(NO_HINTS, classes={"x": Lines}, clues=clues, objects_are_held=True)
    built, *_ = options(X, (3,), hints)
    assert [part.path for part in built.parts] == ["x.ends", "x.shift"]
    assert [part.value.dtype.kind for part in built.parts] == ["i", "f"]
    opened = template(Signature((("x", built),)), clues, [])
    assert [hole.kind for hole in opened.holes] == ["int", "held"]
    ends, shift = dict(opened.at([(5,), (5,)], [4, 4], ascending=False).arguments)["x"].parts
    assert (ends.value.shape, shift.value.shape, shift.path) == ((5,), (5,), "x.shift")
    own = Lines(np.arange(2), np.ones(2))
    assert first(X, classes={"x": Lines}, instances={"x": own}, objects_are_held=True).value is own


def test_an_object_is_no_mask_whatever_its_name() -> None:
    class Where(NamedTuple):
        slot: Any

    parameter = Parameter("where", 0, True, False)
    built = options(parameter, (3,), replace(NO_HINTS, classes={"where": Where}))[0]
    assert built.parts[0].path == "where.slot"


def test_an_object_that_the_module_holds_comes_before_one_that_is_built() -> None:
    held = first(X, classes={"x": Layer}, instances={"x": Layer(np.ones(5), 0)})
    assert held.parts[0] == Leaf("x.weight", (5,), "an object of the module")


def test_mixed_shapes_come_once_each_and_keys_get_shapes_of_their_own() -> None:
    hints = replace(NO_HINTS, keys={"x": ["w", "b"]})
    choices = options_of_shapes(X, hints)
    assert [leaf.shape for leaf in choices[0].values()] == [(3, 4), (4,)]
    assert len({repr(choice) for choice in choices}) == len(choices)


def test_many_parts_are_tried_as_few_too() -> None:
    groups = Parameter("groups", 1, False, False, default=32)
    hints = replace(NO_HINTS, clues={"groups": [Clue("the body", kind=Kind.WHOLE, divides=("c",))]})
    default, few = options(groups, (3,), hints)
    assert (default, few.value) == (OMITTED, 2)
    assert options(groups, (3,), NO_HINTS) == [OMITTED]


def test_a_large_factor_of_an_axis_is_tried_as_a_small_one() -> None:
    factor = Parameter("factor", 1, False, False, default=8)
    clues = {"logits": [Clue("a docstring", "f32[B factor*factor*9]", kind=Kind.ARRAY)]}
    default, few = options(factor, (3,), replace(NO_HINTS, clues=clues))
    assert (default, few.value, few.source) == (OMITTED, 2, "a docstring")


def test_beside_complex_numbers_arrays_may_be_complex_and_stand_ins_come_once() -> None:
    said = replace(NO_HINTS, complex_numbers=frozenset({"z"}))
    beside = [Parameter("w", 1, True, False), Parameter("q", 2, False, False)]
    w, step = (options(parameter, (3,), said) for parameter in beside)
    assert [leaf.is_complex for leaf in w if isinstance(leaf, Leaf)] == [False, True]
    assert [each.text for each in step] == [
        each.text for each in options(beside[1], (3,), NO_HINTS)
    ]


class Settings(NamedTuple):
    top_k: int
    weight: float


def test_what_is_not_differentiated_may_be_an_object_of_its_class() -> None:
    parameter = Parameter("config", 0, False, False)
    first_option = options(parameter, (3,), replace(NO_HINTS, classes={"config": Settings}))[0]
    assert first_option.value == Settings(2, 0.5)


def test_a_default_keeps_the_domain_that_it_lies_in() -> None:
    domain = Domain(condition("x > 0")[1], "a docstring")
    above, below = (
        options(replace(X, default=d), (3,), replace(NO_HINTS, domains={"x": domain}))[0]
        for d in (2.5, -1.0)
    )
    assert (above.domain, below.domain) == (domain, None)


@dataclass(frozen=True)
class Room:
    dt: float = 1.0
    clip: bool = False
    steps: int = 2

    def __post_init__(self) -> None:
        if self.clip and self.steps > 2:
            raise ValueError("no")


def test_an_object_is_made_with_other_settings_at_once_or_one_by_one() -> None:
    made = [(each.value.dt, each.value.clip, each.value.steps) for each in remade(Room)]
    assert made == [(0.75, False, 2), (1.0, True, 2), (1.0, False, 3)]
    (moved,) = remade(Settings)
    assert moved.value == Settings(3, 0.375)


@dataclass(frozen=True)
class Tuning:
    goal: Literal["prime", "mean"] = "prime"
    width: float = 4.0


def test_an_object_is_made_with_other_words() -> None:
    made = [(each.value.goal, each.value.width) for each in remade(Tuning)]
    assert made == [("mean", 4.0), ("prime", 3.0)]


@dataclass(frozen=True)
class Card:
    slope: float = 2.0
    channel: int = 1  # +1 n-channel, -1 p-channel
    polarity: int = -1
    count: int = 1  # 1 or more


def test_a_setting_that_is_one_of_two_signs_is_the_other_one() -> None:
    (moved,) = remade(Card)
    assert astuple(moved.value) == (1.5, -1, 1, 2)


def test_what_is_said_of_all_inputs_holds_for_the_parts_of_an_argument() -> None:
    positive = Domain(condition("x > 0")[1], "a docstring")
    usual = Domain(condition("x in [0, 1e6]")[1], "the name `area`")
    signed = Domain(condition("x in [-1, 1]")[1], "a comment")
    of_all = [Clue("a docstring", domain="> 0", for_all=True)]
    domains = {"x": positive, "x['area']": usual, "x['side']": signed}
    keys = {"x": ["area", "mass", "side"]}
    held = first(X, keys=keys, domains=domains, clues={"x": of_all})
    assert held["mass"].domain == positive
    assert held["area"].domain.bounds.text == "in (0, 1e6]"
    assert held["side"].domain == signed
    own = [Clue("a docstring", domain="> 0")]
    assert first(X, keys=keys, domains=domains, clues={"x": own})["mass"].domain is None
