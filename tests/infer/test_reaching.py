"""What never ran is reached: by other plain arguments, by larger sizes, and by nothing where nothing leads there."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.infer.ran import watched
from gradcheck_cli.infer.reaching import Reached, reaching
from gradcheck_cli.infer.trial import Trial
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Hints, Leaf, Signature
from gradcheck_cli.subject.results import Place
from tests.infer.fitted import NO_HINTS, Gradient, fixed, shapes


@dataclass
class Here(Gradient):
    """A gradient whose text is this file's."""

    @property
    def place(self) -> Place:
        return Place(__file__, 1, "function")

    def rule_code(self) -> list[FunctionType]:
        assert isinstance(self.function, FunctionType)
        return [self.function]


def outcome(function: Any, shape: tuple[int, ...] = (3,), hints: Hints = NO_HINTS) -> Reached:
    gradient = Here(function)
    parameters = gradient.parameters()
    arguments = tuple(
        (p.name, Leaf(p.name, shape, "test") if p.default is OMITTED else OMITTED)
        for p in parameters
    )
    first = gradient.fit(Signature(arguments), "float32")
    return reaching(Trial(gradient, "float32", hints), parameters, [first])


def reached(function: Any, shape: tuple[int, ...] = (3,)) -> list[Any]:
    return outcome(function, shape).subjects


@pytest.fixture(autouse=True)
def nobody_looks_on() -> Any:
    """What measures these tests themselves would be in the way."""
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


def test_a_flag_that_opens_an_arm_is_moved() -> None:
    def f(x: Any, squared: bool = False) -> Any:
        return x * x if squared else x

    assert [fixed(s.signature) for s in reached(f)] == [{"squared": True}]


def test_an_array_whose_axes_are_counted_has_others() -> None:
    def f(x: Any, w: Any) -> Any:
        if w.ndim == 3:
            return x @ w
        return x * w

    (found,) = reached(f, (5, 4))
    assert [len(leaf.shape) for leaf in found.signature.leaves][1] == 3


def test_a_stated_rank_is_raised_by_what_the_question_names_alone() -> None:
    def f(x: Any) -> Any:
        cells = x.shape[0] * x.shape[1] if x.ndim == 2 else x.size
        return x / cells

    hints = replace(NO_HINTS, clues={"x": [Clue("the text", spec="f32[n m]")]})
    found = outcome(f, (3, 4), hints).subjects
    assert all(len(leaf.shape) < 3 for subject in found for leaf in subject.signature.leaves)


def test_with_the_batch_what_has_one_entry_for_each_of_it_loses_its_axis() -> None:
    def f(x: Any, lengths: Any) -> Any:
        single = x.ndim == 2
        if single:
            x, lengths = x[None], lengths[None]
        return np.sum(x, axis=(1, 2)) / np.reshape(lengths, x.shape[:1])

    clues = {
        "x": [Clue("the text", spec="f32[B T C]")],
        "lengths": [Clue("the text", spec="f32[B]")],
    }
    gradient = Here(f)
    leaves = Leaf("x", (3, 4, 5), "test"), Leaf("lengths", (3,), "test")
    first = gradient.fit(Signature(tuple((leaf.path, leaf) for leaf in leaves)), "float32")
    trial = Trial(gradient, "float32", replace(NO_HINTS, clues=clues))
    (found,) = reaching(trial, gradient.parameters(), [first]).subjects
    assert [len(leaf.shape) for leaf in found.signature.leaves] == [2, 0]


def test_what_is_made_of_an_argument_leads_to_it() -> None:
    def f(x: Any, power: int = 1) -> Any:
        several = power - 1
        if several:
            x = x**power
        return x

    assert [fixed(s.signature) for s in reached(f)] == [{"power": 2}]


def test_past_a_body_that_always_ran_leads_the_flag_the_other_way() -> None:
    def f(x: Any, centred: bool = True) -> Any:
        if centred:
            x = x - np.mean(x)
        return x

    assert [fixed(s.signature) for s in reached(f)] == [{"centred": False}]


def test_an_arm_of_larger_sizes_is_reached_by_these() -> None:
    def f(x: Any) -> Any:
        rest = x.shape[-1] - 3
        return np.concatenate([x[..., :3] * 2, x[..., 3:]], -1) if rest else x * 2

    assert [shapes(s) for s in reached(f)] == [{"x": (6,)}]


def test_no_arm_leads_nowhere() -> None:
    def f(x: Any, power: int = 2) -> Any:
        if np.ndim(x) > 4:
            raise ValueError("too many axes")
        return x**power

    assert reached(f) == []


def test_what_no_argument_opens_is_closed() -> None:
    def f(x: Any, method: str = "exact", scale: float = 1.0) -> Any:
        if method == "exact" and scale < 100.0:
            return x * scale
        return x * scale + x

    (arm,) = outcome(f).closed
    assert arm.words == "`method == 'exact' and scale < 100.0` does not hold"


def test_nobody_elses_tracer_is_replaced() -> None:
    def mine(*_: Any) -> None:
        return None

    sys.settrace(mine)
    try:
        with watched([__file__]) as ran:
            np.abs(1)
        assert sys.gettrace() is mine
        assert not ran.steps
    finally:
        sys.settrace(None)


def test_an_axis_of_one_is_reached() -> None:
    def f(x: Any) -> Any:
        if x.shape[-1] == 1:
            return x * 2
        return x * 2 + 0

    assert [shapes(s) for s in reached(f)] == [{"x": (1,)}]


def test_what_no_shape_opens_is_closed_too() -> None:
    def f(x: Any) -> Any:
        return x * 3 if x.ndim > 7 else x * 2

    (arm,) = outcome(f).closed
    assert arm.words == "`x.ndim > 7` holds"


def test_none_stands_for_an_array_where_a_source_says_so() -> None:
    def f(x: Any, y: Any) -> Any:
        return x if y is None else x * y

    hints = replace(NO_HINTS, clues={"y": [Clue("the body", values=(None,))]})
    (subject,) = outcome(f, hints=hints).subjects
    assert shapes(subject) == {"x": (3,)}
    assert outcome(f).subjects == []


def test_an_array_stands_for_none_where_the_body_asks_and_calls_hand_over_none() -> None:
    def f(x: Any, start: Any) -> Any:
        level = np.zeros(np.shape(x)[1:]) if start is None else start
        for row in x:
            level = np.add(level, row, out=np.empty(np.shape(x)[1:]))
        return level

    gradient = Here(f)
    none = Fixed(None, "None", "the call `f(x, None)`")
    first = gradient.fit(Signature((("x", Leaf("x", (4, 3), "test")), ("start", none))), "float32")
    for asks, found in (((None,), [{"x": (4, 3), "start": (3,)}]), ((), [])):
        clues = {"start": [Clue("the call `f(x, None)`", values=(None,)), Clue("the body", values=asks)]}  # fmt: skip
        trial = Trial(gradient, "float32", replace(NO_HINTS, clues=clues))
        reached = reaching(trial, gradient.parameters(), [first]).subjects
        assert [{k: len(v) for k, v in shapes(s).items()} for s in reached] == [
            {k: len(v) for k, v in each.items()} for each in found
        ]


def test_a_name_that_an_arrays_shape_made_leads_to_that_array() -> None:
    def f(x: Any, mats: Any) -> Any:
        shared = len(mats.shape) == 1
        rows = mats[None] if shared else mats
        return (x * rows).sum(-1)

    (subject,) = reached(f, (2, 3))
    assert shapes(subject) == {"x": (2, 3), "mats": (3,)}


def test_a_count_is_made_longer_than_an_axis_that_it_is_compared_with() -> None:
    def f(x: Any, n: int = 2) -> Any:
        if n > x.shape[0]:
            return np.pad(x, (0, n - x.shape[0]))
        return x[:n]

    assert {"n": 5} in [fixed(subject.signature) for subject in reached(f)]
