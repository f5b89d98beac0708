"""What the report says of adequacy: numbers, a note about shapes, and whether it is certified."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.adequacy.adequacy import adequacy
from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.other_shapes import other_shapes
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import Adequacy
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.results import Cut, Kernel
from tests.adequacy.test_adequacy import column
from tests.check.fakes import Asked, opening
from tests.traced import gradient_of, ruled, traced


def reported(
    outcome: GradientOutcome, function: Any = None, *judged: Measurements
) -> tuple[Checked, Adequacy]:
    """The report of a right gradient; with a function, other shapes of it are tried."""
    request = Asked().request()
    if function is not None:
        gradient: Any = gradient_of(function)
        outcome += other_shapes(request_of(gradient), [m.subject for m in judged], outcome)
    answer = checked(
        request, opening(), GradientOutcome(checked=True, moves=True, points=8) + outcome
    )
    assert answer.gradient.adequacy is not None
    return answer, answer.gradient.adequacy


def request_of(gradient: Any) -> Any:
    request = Asked().request()
    return type(request)(gradient, *(getattr(request, n) for n in ("framework", "task", "site", "progress")))  # fmt: skip


def mean_backward(x: Any, g: Any) -> Any:
    return (jnp.broadcast_to(g, x[0].shape) / x[0].shape[-1] * x[0] * 2,)


def square_mean(x: Any) -> Any:
    return (x**2).mean(-1, keepdims=True)


def test_shapes_that_would_show_more_are_told_with_the_comment_that_asks_for_them() -> None:
    rule = ruled(square_mean, mean_backward)
    m = traced(rule, column(3))
    outcome = GradientOutcome(showings=adequacy(m))
    answer, told = reported(outcome, rule, m)
    (note,) = (f for f in answer.findings if f.rule == RuleName.BLIND_INPUTS)
    assert told.at_shapes_only
    assert told.shown < told.counted
    (first, *_) = told.unseen
    assert (first.change, first.kind) == ("sum over axis -1 → over all axes", "axis")
    assert first.hint == "`# cgcheck: x=f32[5 3]`"
    assert note.help == "add `# cgcheck: x=f32[5 3]` to the line that defines it"


def test_a_function_of_a_row_alone_is_asked_for_no_batch() -> None:
    weights = np.arange(1.0, 4.0, dtype=np.float32)

    def weighted(x: Any) -> Any:
        (_,) = x.shape
        return jnp.dot(x, weights) * x.sum()

    def backward(x: Any, g: Any) -> Any:
        return (g * (weights * x[0].sum() + jnp.dot(x[0], weights)),)

    rule = ruled(weighted, backward)
    m = traced(rule, column(3))
    showings = adequacy(m)
    assert showings.degenerate
    answer, told = reported(GradientOutcome(showings=showings), rule, m)
    assert not told.at_shapes_only
    assert answer.findings == []


def test_a_batch_that_was_judged_leaves_nothing_to_tell() -> None:
    rule = ruled(square_mean, mean_backward)
    both = adequacy(traced(rule, column(3))) + adequacy(traced(rule, column(5, 3)))
    answer, told = reported(GradientOutcome(showings=both))
    assert told.shown == told.counted
    assert (told.unseen, answer.findings) == ([], [])


def test_what_could_not_be_changed_says_why() -> None:
    m = traced(lambda x: jnp.round(x) + x * 0, column(3))
    showings = adequacy(m)
    assert reported(GradientOutcome(showings=showings))[1].not_covered is None
    assert (
        checked(Asked().request(), opening(), GradientOutcome(checked=True)).gradient.adequacy
        is None
    )


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        ([Kernel((Cut(3, 16),))], True),
        ([Kernel((Cut(3, 16),)), Kernel((Cut(40, 16),))], False),
        ([Kernel((Cut(3, 16),)), Kernel((Cut(3, 16),), programs=2)], False),
        ([Kernel((Cut(3, 3),), programs=0)], False),
        ([], False),
    ],
)
def test_kernels_that_took_all_in_one_block_are_right_at_that(
    kernels: list[Kernel], told: bool
) -> None:
    m = traced(ruled(square_mean, mean_backward), column(4, 3))
    outcome = GradientOutcome(showings=adequacy(m), kernels=tuple(kernels))
    _, adequate = reported(outcome)
    assert any("in one block" in unseen.change for unseen in adequate.unseen) is told


def test_a_text_that_took_one_piece_in_each_call_is_told() -> None:
    rule = ruled(square_mean, mean_backward)
    outcome = GradientOutcome(showings=adequacy(traced(rule, column(3))), one_piece=(4096,))
    _, told = reported(outcome)
    assert told.at_shapes_only
    assert "no axis was longer than one piece of 4096, in any call" in {
        unseen.change for unseen in told.unseen
    }
