"""Probing: small signatures are offered until function and rule take some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.infer.probing import probe
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Signature
from gradcheck_cli.subject.refusals import Declined, RuleError
from tests.infer.fitted import NO_HINTS, Gradient, fixed, shapes


def attempt(function: Any, **hints: Any) -> Any:
    return probe(Gradient(function), "float32", replace(NO_HINTS, **hints))


def test_the_smallest_shape_and_one_of_higher_rank_fit() -> None:
    outcome = attempt(lambda x: x + np.zeros(3))
    assert [shapes(s) for s in outcome.subjects[:2]] == [{"x": ()}, {"x": (3,)}]
    assert (outcome.broken, outcome.misfit) == (None, None)


def test_arrays_that_multiply_find_their_shapes() -> None:
    outcome = attempt(
        lambda a, b: np.ones(np.shape(a)[:2]) @ np.ones((np.shape(b)[0], 1)) * len(a[0])
    )
    assert all(s.leaves[0].shape[1] == s.leaves[1].shape[0] for s in outcome.subjects)


def test_one_signature_of_each_rank_is_enough() -> None:
    def matrices(x):
        if np.ndim(x) != 2:
            raise ValueError("matrices only")
        return x

    assert [shapes(s) for s in attempt(matrices).subjects] == [{"x": (3, 4)}]


def test_nothing_fits_and_the_first_refusal_is_the_reason() -> None:
    def refuse(x):
        raise ValueError("no numbers today")

    outcome = attempt(refuse)
    assert outcome.subjects == []
    assert outcome.reason == "x: float[]: no numbers today"


def test_where_a_refusal_speaks_of_integers_the_last_argument_is_one() -> None:
    def picked(x, rows):
        if not np.issubdtype(np.asarray(rows).dtype, np.integer):
            raise TypeError("rows must be of integer type")
        return x

    outcome = attempt(picked)
    assert fixed(outcome.subjects[0].signature)["rows"].dtype == np.int32
    assert [leaf.path for leaf in outcome.subjects[0].leaves] == ["x"]


def test_a_function_of_any_number_of_arguments_gets_as_many_as_it_takes() -> None:
    def two(*args):
        if len(args) != 2:
            raise TypeError("two, please")
        return args[0] * args[1]

    assert shapes(attempt(two).subjects[1]) == {"args[0]": (3,), "args[1]": (3,)}


def test_behind_named_arguments_two_more_are_tried_first() -> None:
    def stacked(x, *more):
        return x * np.prod([np.shape(m) == np.shape(x) and m for m in more], axis=0)

    def alone(x, *more):
        if more:
            raise TypeError("no more")
        return x

    assert set(shapes(attempt(stacked).subjects[0])) == {"x", "more[0]", "more[1]"}
    assert set(shapes(attempt(alone).subjects[0])) == {"x"}


def test_an_argument_that_the_rule_declines_is_offered_as_a_number() -> None:
    class Sloped(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if isinstance(dict(signature.arguments)["slope"], Leaf):
                raise Declined("slope")
            return super().fit(signature, dtype)

    gradient = Sloped(lambda x, slope: x * slope)
    before = gradient.parameters()
    subjects = probe(gradient, "float32", NO_HINTS).subjects
    assert {leaf.path for s in subjects for leaf in s.leaves} == {"x"}
    assert fixed(subjects[0].signature) == {"slope": 0.5}
    assert gradient.parameters() == before  # nobody else hears of it


def broken_at(shape: tuple[int, ...], error: RuleError) -> Gradient:
    class Broken(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if signature.leaves[0].shape == shape:
                raise error
            return super().fit(signature, dtype)

    return Broken(lambda x: x)


def test_a_rule_that_refuses_every_signature_is_broken() -> None:
    error = RuleError("TypeError", "it takes two")

    class Broken(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            raise error

    outcome = probe(Broken(lambda x: x), "float32", NO_HINTS)
    assert outcome.broken is not None
    assert (outcome.broken[0].describe(), outcome.broken[1]) == ("x: float[]", error)


def test_a_rule_that_refuses_some_signatures_is_not_broken() -> None:
    outcome = probe(broken_at((), RuleError("TypeError", "no scalars")), "float32", NO_HINTS)
    assert (outcome.broken, bool(outcome.subjects)) == (None, True)


def test_a_gradient_of_another_shape_is_a_misfit() -> None:
    error = RuleError("shape", "of another shape", silent=True)
    outcome = probe(broken_at((3,), error), "float32", NO_HINTS)
    assert outcome.misfit is not None
    assert outcome.misfit[1] is error


def test_recorded_calls_come_before_all_guesses() -> None:
    recorded = Signature((("x", Leaf("x", (7, 2), "a recorded call")),))
    outcome = attempt(lambda x: x, calls=[recorded])
    assert [s.signature for s in outcome.subjects] == [recorded]


def test_a_rule_that_refuses_a_recorded_call_is_certainly_broken() -> None:
    recorded = Signature((("x", Leaf("x", (7, 2), "a recorded call")),))
    gradient = broken_at((7, 2), RuleError("TypeError", "no"))
    outcome = probe(gradient, "float32", replace(NO_HINTS, calls=[recorded]))
    assert outcome.broken is not None
    assert (outcome.broken[0], outcome.broken[1].certain) == (recorded, True)


def test_an_argument_with_a_number_by_default_is_differentiated_around_it() -> None:
    def scaled(x, factor=2.5):
        return x * factor

    subject = attempt(scaled).subjects[0]
    assert [(leaf.path, leaf.centre) for leaf in subject.leaves] == [("x", None), ("factor", 2.5)]
    assert not any(isinstance(v, Fixed) for _, v in subject.signature.arguments)


def test_counts_of_real_data_become_small_ones() -> None:
    def grouped(x, num_groups=32):
        return np.reshape(x, (num_groups, -1, 2))

    small = attempt(grouped)
    assert fixed(small.subjects[0].signature) == {"num_groups": 2}


def test_a_count_that_fits_stays() -> None:
    outcome = attempt(lambda x, steps=32: x * steps)
    assert outcome.subjects[0].signature.arguments[1][1] is OMITTED


def test_beside_a_count_of_one_nothing_is_broadcast_by_chance() -> None:
    """Small arrays are taken with one phase alone; with one, a table of strikes is, too."""

    def resampled(series, strikes, phases):
        frames, channels = np.shape(series)
        times = strikes[:-1, None] + np.arange(phases)
        return np.zeros((frames, channels)).sum() * times

    counts = {"phases": [Clue("the body", kind=Kind.WHOLE)]}
    found = [(fixed(s.signature)["phases"], s) for s in attempt(resampled, clues=counts).subjects]
    assert {len(shapes(subject)["strikes"]) for count, subject in found if count > 1} == {1}


def test_what_gets_no_gradient_is_a_number_where_no_array_fits() -> None:
    def stepped(x, bend):
        if not isinstance(bend, (int, float)):
            raise TypeError("a plain number")
        return x

    clues = {"bend": [Clue("the body", declined=True)]}
    assert attempt(stepped).subjects == []
    found = attempt(stepped, clues=clues).subjects
    assert {type(fixed(s.signature)["bend"]) for s in found} == {float}
