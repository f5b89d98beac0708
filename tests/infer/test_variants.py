"""Variants of a signature that fits: the flag the other way, numbers moved, what was left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.infer.others import other_values
from gradcheck_cli.infer.variants import Variants, varied
from gradcheck_cli.inputs.clue import Clue, Entry, Kind
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import (
    GUESS,
    OMITTED,
    Fixed,
    Hints,
    Leaf,
    Parameter,
    Signature,
)
from gradcheck_cli.project.input_specs import condition, parse
from gradcheck_cli.subject.refusals import RuleError
from tests.infer.fitted import NO_HINTS, Gradient, fixed, shapes

X = Leaf("x", (3,), "test")


def of(gradient: Gradient, x: Leaf = X, hints: Hints = NO_HINTS, **others: Any) -> Variants:
    names = [p.name for p in gradient.parameters()]
    arguments = tuple((n, x if n == "x" else others.get(n, OMITTED)) for n in names)
    return varied(gradient, gradient.parameters(), [Signature(arguments)], "float32", hints)


def variants(gradient: Gradient, hints: Hints = NO_HINTS, **others: Any) -> Any:
    found = of(gradient, X, hints, **others)
    return found.subjects, found.broken


def test_a_flag_goes_the_other_way_and_a_number_off_its_default() -> None:
    subjects, broken = variants(Gradient(lambda x, flag=True, power=2, slope=0.5: x))
    assert [fixed(s.signature) for s in subjects] == [
        {"flag": False, "power": 3, "slope": 0.375},
        {"flag": False},
        {"power": 3},
        {"slope": 0.375},
    ]
    assert broken is None


def test_pairs_of_numbers_go_off_their_defaults() -> None:
    subjects, broken = variants(Gradient(lambda x, domain=(-1.0, 1.0), padding=(1, 2): x))
    assert [fixed(s.signature) for s in subjects] == [
        {"domain": (-1.25, 1.5), "padding": (2, 3)},
        {"domain": (-1.25, 1.5)},
        {"padding": (2, 3)},
    ]
    assert broken is None


def test_an_optional_array_is_given() -> None:
    subjects, _ = variants(Gradient(lambda x, bias=None: x if bias is None else x + bias))
    assert shapes(subjects[0]) == {"x": (3,), "bias": (3,)}
    assert subjects[0].leaves[1].source == "given, not left out"


def test_a_mask_is_given_in_the_shape_that_is_taken() -> None:
    def masked(x, active=None):
        if active is not None and np.shape(active) != (3,):
            raise ValueError("one for each column")
        return x

    hints = replace(NO_HINTS, clues={"active": [Clue("the body `~active`", kind=Kind.BOOLS)]})
    found = of(Gradient(masked), Leaf("x", (4, 3), "test"), hints)
    (given,) = (fixed(s.signature)["active"] for s in found.subjects)
    assert (given.shape, given.dtype) == ((3,), bool)
    assert 0 < given.sum() < 3


def test_a_mask_that_a_call_elsewhere_leaves_out_is_given() -> None:
    gradient = Gradient(lambda x, active: x if active is None else x * active)
    hints = replace(NO_HINTS, clues={"active": [Clue("a docstring", kind=Kind.BOOLS)]})
    found = of(gradient, X, hints, active=Fixed(None, "None", "the call in line 9"))
    assert [fixed(s.signature)["active"].dtype for s in found.subjects] == [bool]


def test_what_may_be_a_whole_number_or_none_is_never_an_array() -> None:
    hints = replace(NO_HINTS, clues={"freq": [Clue("a docstring", kind=Kind.WHOLE)]})
    subjects, _ = variants(Gradient(lambda x, freq=None: x), hints)
    assert {type(fixed(s.signature)["freq"]) for s in subjects} == {int}


def test_what_declines_arrays_is_given_a_number() -> None:
    def power(x, pieces=None):
        if isinstance(pieces, np.ndarray):
            raise TypeError("a number, please")
        return x if pieces is None else x**pieces

    (subject,) = of(Gradient(power)).subjects
    assert fixed(subject.signature)["pieces"] == 0.75


def test_an_iteration_is_not_stopped_before_its_default() -> None:
    def solve(x, tol=1e-13, max_iter=60, gain=2.0):
        for _ in range(max_iter):
            x = gain * x if abs(x) > tol else x
        return x

    subjects, _ = variants(Gradient(solve))
    assert {frozenset(fixed(s.signature)) for s in subjects} == {frozenset({"gain"})}


def test_the_default_that_a_source_names_is_no_other_value() -> None:
    clues = {"bias": [Clue("the body `bias is None`", values=(None,))]}
    gradient = Gradient(lambda x, bias=None: x if bias is None else x + bias)
    subjects, _ = variants(gradient, replace(NO_HINTS, clues=clues))
    assert shapes(subjects[0]) == {"x": (3,), "bias": (3,)}


def test_two_that_are_left_out_together_are_given_together() -> None:
    def both(x, scale=None, shift=None):
        if (scale is None) != (shift is None):
            raise ValueError("both or none")
        return x if scale is None else x * scale + shift

    subjects, _ = variants(Gradient(both))
    assert shapes(subjects[0]) == {"x": (3,), "scale": (3,), "shift": ()}


def test_what_is_said_to_hold_no_floats_is_not_given_as_floats() -> None:
    def masked(x, bias=None, mask=None):
        y = x if bias is None else x + bias
        return y if mask is None else y * mask

    clues = {"mask": [Clue("a call", "bool[n]", kind=Kind.BOOLS)]}
    subjects, _ = variants(Gradient(masked), replace(NO_HINTS, clues=clues))
    assert all("mask" not in shapes(subject) for subject in subjects)


def test_pairs_are_moved_where_not_all_can_be() -> None:
    def two_at_most(x, one=False, two=False, three=False):
        if one and two and three:
            raise ValueError("not all of them")
        return x

    subjects, _ = variants(Gradient(two_at_most))
    moved = [{n for n, value in fixed(s.signature).items() if value} for s in subjects]
    assert [m for m in moved if len(m) == 2] == [
        {"one", "two"},
        {"one", "three"},
        {"two", "three"},
    ]


def test_what_is_moved_at_once_is_moved_with_each_word() -> None:
    def loss(x, reduction="mean", weight=1.0, smoothing=0.0):
        return x

    clues = {"reduction": [Clue("the body", values=("mean", "sum", "none"), kind=Kind.WORD)]}
    subjects, _ = variants(Gradient(loss), replace(NO_HINTS, clues=clues))
    assert [fixed(s.signature) for s in subjects[:3]] == [
        {"reduction": "sum", "weight": 0.75, "smoothing": 0.25},
        {"weight": 0.75, "smoothing": 0.25},
        {"reduction": "none", "weight": 0.75, "smoothing": 0.25},
    ]


def test_each_word_of_four_is_there_beside_what_is_left_out() -> None:
    words = ("mean", "sum", "none", "by_weight")

    def loss(x, weight=None, reduction="mean"):
        return x if weight is None else x * weight

    clues = {"reduction": [Clue("the docstring", values=words, kind=Kind.WORD)]}
    subjects, _ = variants(Gradient(loss), replace(NO_HINTS, clues=clues))
    with_weight = [s.signature for s in subjects if "weight" in shapes(s)]
    assert {fixed(s).get("reduction", "mean") for s in with_weight} == set(words)


def test_beside_a_number_that_the_body_takes_another_way_for_stands_one_that_it_does_not() -> None:
    clues = {"p": [Clue("the body `if p == 1:`", values=(2.0, 1), kind=Kind.NUMBER)]}
    hints = replace(NO_HINTS, clues=clues)
    subjects, _ = variants(Gradient(lambda x, p=2.0: x), hints)
    assert [fixed(s.signature)["p"] for s in subjects] == [1, 1.5]


def test_what_the_function_refuses_is_no_variant() -> None:
    def plain(x, flag=True):
        if not flag:
            raise ValueError("always on")
        return x

    assert variants(Gradient(plain)) == ([], None)


def test_a_rule_that_is_certainly_broken_stands_for_all_variants() -> None:
    error = RuleError("TypeError", "one gradient too few", certain=True)

    class Broken(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if "flag" in fixed(signature):
                raise error
            return super().fit(signature, dtype)

    subjects, broken = variants(Broken(lambda x, flag=True, power=2: x))
    assert subjects == []
    assert broken is not None
    assert (fixed(broken[0]), broken[1].message) == ({"flag": False}, error.message)


def test_a_rule_that_fails_for_another_axis_alone_is_broken() -> None:
    class Broken(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if fixed(signature).get("axis") == 0:
                raise RuleError("ValueError", "the shapes do not fit")
            return super().fit(signature, dtype)

    _, broken = variants(Broken(lambda x, axis=-1: x))
    assert broken is not None
    assert broken[1].certain


class Uneven(Gradient):
    """A rule that cuts an axis into two, and one that always takes the last axis for it."""

    mistaken = False

    def fit(self, signature: Signature, dtype: str) -> Any:
        axis = 1 if self.mistaken else fixed(signature).get("axis", -1)
        shape = signature.leaves[0].shape
        if axis != fixed(signature).get("axis", -1) or shape[axis] % 2:
            raise RuleError("ValueError", "the shapes do not fit")
        return super().fit(signature, dtype)


def test_a_rule_that_takes_another_axis_at_other_sizes_is_not_broken() -> None:
    gradient = Uneven(lambda x, axis: x)
    found = of(gradient, Leaf("x", (3, 4), "test"), axis=Fixed(-1, "-1", "test"))
    assert found.broken is None
    assert [(fixed(s.signature), shapes(s)["x"]) for s in found.subjects] == [({"axis": 0}, (4, 3))]
    assert found.misfit is not None
    assert fixed(found.misfit[0]) == {"axis": 0}


def test_a_rule_that_takes_another_axis_at_no_sizes_is_broken() -> None:
    gradient = Uneven(lambda x, axis: x)
    gradient.mistaken = True
    found = of(gradient, Leaf("x", (3, 4), "test"), axis=Fixed(-1, "-1", "test"))
    assert found.broken is not None


def test_a_rule_that_raises_on_purpose_is_not_broken() -> None:
    class Unfinished(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if fixed(signature).get("axis") == 0:
                raise RuleError("NotImplementedError", "only the last axis")
            return super().fit(signature, dtype)

    assert variants(Unfinished(lambda x, axis=-1: x))[1] is None


def test_an_axis_and_keepdims_move_together() -> None:
    subjects, _ = variants(Gradient(lambda x, axis=-1, keepdims=False: x))
    assert {"axis": 0, "keepdims": True} in [fixed(s.signature) for s in subjects]


def test_the_integer_that_does_not_count_is_one_of_those_that_are_there() -> None:
    labels = Fixed(np.array([2, 0, 2], np.int32), "i32[3]", "test")
    gradient = Gradient(lambda x, labels, ignore_index=-100: x + 0 * labels)
    subjects, _ = variants(gradient, labels=labels)
    assert 2 in [fixed(s.signature).get("ignore_index") for s in subjects]


def test_a_number_stays_near_its_default() -> None:
    def between(x, exponent=1.5):
        if not 1.25 < exponent < 2:
            raise ValueError("between 1.25 and 2")
        return x

    subjects, _ = variants(Gradient(between))
    assert [fixed(s.signature) for s in subjects] == [{"exponent": 1.875}]


def test_a_count_stays_above_the_integers_that_it_bounds() -> None:
    ids = Fixed(np.array([2, 0, 2, 1], np.int32), "i32[4]", "test")
    gradient = Gradient(lambda x, ids, num_segments: x)
    clues = {"num_segments": [Clue("the docstring", values=(2, 5), kind=Kind.WHOLE)]}
    hints = replace(NO_HINTS, clues=clues)
    found = of(gradient, hints=hints, ids=ids, num_segments=Fixed(3, "3", "test"))
    assert [fixed(s.signature)["num_segments"] for s in found.subjects] == [5]


def test_a_count_of_an_axis_is_no_one_that_lies_along_it_by_chance() -> None:
    def of_classes(x, classes):
        return x + np.zeros(classes)

    def of_window(x, classes):
        return x

    clues = {"classes": [Clue("the body", kind=Kind.WHOLE, values=(3, 1))]}
    hints, chosen = replace(NO_HINTS, clues=clues), Fixed(3, "3", "the body")
    tried, free = (
        [fixed(s.signature)["classes"] for s in of(Gradient(f), X, hints, classes=chosen).subjects]
        for f in (of_classes, of_window)
    )
    assert 1 not in tried
    assert 1 in free


def test_a_share_that_is_off_is_on() -> None:
    subjects, _ = variants(Gradient(lambda x, smoothing=0.0: x))
    assert [fixed(s.signature) for s in subjects] == [{"smoothing": 0.25}]


def test_a_number_that_was_guessed_is_moved() -> None:
    guessed = Fixed(0.5, "0.5", "a guess")
    found, _ = variants(Gradient(lambda x, strength: strength * x), strength=guessed)
    assert {"strength": 0.375} in [fixed(subject.signature) for subject in found]


def test_a_tuple_that_was_guessed_is_turned() -> None:
    guessed = Fixed((5, 2), "(5, 2)", "the body unpacks it")
    gradient = Gradient(lambda x, bounds: np.clip(x, *bounds))
    found, _ = variants(gradient, replace(NO_HINTS, unpacked={"bounds": 2}), bounds=guessed)
    assert {"bounds": (2, 5)} in [fixed(subject.signature) for subject in found]


def others_of_a_pair(default: tuple[int, ...], **hints: object) -> list[object]:
    pair = Parameter("box", 1, False, False, default=default)
    signature = Signature((("x", X),))
    return [o.value for o in other_values(pair, OMITTED, signature, replace(NO_HINTS, **hints))]


def test_numbers_that_are_alike_are_moved_apart() -> None:
    assert others_of_a_pair((3, 3))[0] == (4, 5)
    assert others_of_a_pair((3, 1))[0] == (4, 2)


def test_the_sides_of_a_tile_are_unlike_first() -> None:
    sides = ((2, 3), (3, 2))
    clue = Clue("the body", kind=Kind.SHAPE, values=sides, entries=(Entry("", divides=("n",)),) * 2)
    assert others_of_a_pair((3, 3), clues={"box": [clue]})[:2] == [*sides]


def test_two_floats_of_a_call_are_moved_apart() -> None:
    at_the_call = Fixed((1.0, 1.0), "(1.0, 1.0)", "the call")
    gradient = Gradient(lambda x, temperatures: x / temperatures[0] + x / temperatures[1])
    found, _ = variants(gradient, temperatures=at_the_call)
    assert {"temperatures": (1.25, 1.5)} in [fixed(subject.signature) for subject in found]


def test_a_number_is_given_for_what_is_left_out() -> None:
    hints = replace(NO_HINTS, clues={"norm": [Clue("the body", kind=Kind.WORD)]})

    def given(name: str) -> list[object]:
        left_out = Parameter(name, 1, False, False, default=None)
        others = other_values(left_out, OMITTED, Signature((("x", X),)), hints)
        return [other.value for other in others if isinstance(other.value, float)]

    assert 0.75 in given("scale")
    assert 0.75 not in given("mask") + given("norm") + given("axis")


def test_ones_that_nobody_chose_are_marks_too() -> None:
    ones = Fixed(np.ones(3, np.float32), "ones[3]", GUESS)
    subjects, _ = variants(Gradient(lambda x, good: x * good), good=ones)
    (given,) = (fixed(s.signature)["good"] for s in subjects)
    assert set(given) == {0.0, 1.0}
    column = Fixed(np.ones((2, 1), np.float32), "ones[2, 1]", GUESS)
    subjects, _ = variants(Gradient(lambda x, good: x * good.sum()), good=column)
    assert set(fixed(subjects[0].signature)["good"].ravel()) == {0.0, 1.0}
    positive = {"good": Domain(condition("x > 0")[1], "a docstring")}
    hints = replace(NO_HINTS, domains=positive)
    assert variants(Gradient(lambda x, good: x / good), hints, good=ones)[0] == []
    told = Fixed(np.ones(3, np.float32), "ones[3]", "a comment")
    assert variants(Gradient(lambda x, good: x * good), good=told)[0] == []


def test_a_sign_is_the_other_one() -> None:
    subjects, _ = variants(Gradient(lambda x, polarity=1: x))
    assert [fixed(s.signature) for s in subjects] == [{"polarity": -1}]
    subjects, _ = variants(Gradient(lambda x, keep_sign=True: x))
    assert [fixed(s.signature) for s in subjects] == [{"keep_sign": False}]


def test_a_whole_number_that_is_zero_is_moved() -> None:
    def of_order(x, order=0):
        if order not in (0, 1):
            raise ValueError(order)
        return x * (order + 1)

    found, _ = variants(Gradient(of_order))
    assert [fixed(subject.signature) for subject in found] == [{"order": 1}]


def test_a_table_whose_rows_are_compared_has_one_that_is_alone() -> None:
    labels = Fixed(np.array([2, 0, 2, 0], np.int32), "i32[4]", "test")
    hints = replace(NO_HINTS, paired=frozenset({"labels"}))
    found, _ = variants(Gradient(lambda x, labels: x), hints, labels=labels)
    assert [fixed(s.signature)["labels"].tolist() for s in found] == [[2, 0, 2, 1]]
    alone = replace(labels, value=np.array([2, 0, 2, 1], np.int32))
    assert variants(Gradient(lambda x, labels: x), hints, labels=alone)[0] == []


def test_a_table_that_is_taken_apart_names_one_place_twice() -> None:
    ids = Fixed(np.array([[3, 0, 2], [0, 1, 0]], np.int32), "i32[2 3]", "test")
    taken_apart = replace(NO_HINTS, unpacked={"ids": 2})
    subjects, _ = variants(Gradient(lambda x, ids: x), taken_apart, ids=ids)
    tables = [dict(s.signature.arguments)["ids"].value.tolist() for s in subjects]
    assert [[3, 0, 3], [0, 1, 0]] in tables
    for other in (replace(taken_apart, distinct=True), replace(NO_HINTS, unpacked={"ids": 3})):
        found, _ = variants(Gradient(lambda x, ids: x), other, ids=ids)
        assert all(dict(s.signature.arguments)["ids"].source == "test" for s in found)


def test_an_eps_moves_to_one_that_shows_where_it_is_added() -> None:
    eps = Parameter("eps", 1, False, False, default=1e-6)
    first, *_ = other_values(eps, OMITTED, Signature((("x", X), ("eps", OMITTED))), NO_HINTS)
    assert first.value > 0.01


def test_a_long_number_is_varied_to_where_there_is_a_default_or_the_body_asks_for_it() -> None:
    stated = {"n": (parse("n=90")["n"], "a call")}
    asked = [Clue("the body `n == 90`", values=(90,))]

    def others(default: Any, clues: list[Clue]) -> list[object]:
        n = Parameter("n", 1, False, False, default=default)
        hints = replace(NO_HINTS, guesses=stated, clues={"n": clues})
        here = OMITTED if default is not OMITTED else Fixed(3, "3", "the name `n`")
        signature = Signature((("x", X), ("n", here)))
        return [other.value for other in other_values(n, here, signature, hints)]

    assert 90 in others(50, [])
    assert 90 in others(OMITTED, asked)
    assert 90 not in others(OMITTED, [])
