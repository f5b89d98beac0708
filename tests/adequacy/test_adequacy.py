"""Adequacy: what inputs could have shown, of rules that are all right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.adequacy.adequacy import adequacy
from gradcheck_cli.adequacy.change import Kind, Part, Showing
from gradcheck_cli.adequacy.showings import Showings
from gradcheck_cli.inputs.signature import Fixed
from tests.traced import ruled, traced


def column(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng((seed, *shape)).normal(size=(6, *shape))


def layer_norm(x: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    deviation = jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred / deviation * scale


def layer_norm_backward(args: Any, g: Any) -> Any:
    x, scale = args
    centred = x - x.mean(-1, keepdims=True)
    r = 1 / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    normal, gs = centred * r, g * scale
    dx = r * (gs - gs.mean(-1, keepdims=True) - normal * (gs * normal).mean(-1, keepdims=True))
    return dx, (g * normal).sum(tuple(range(x.ndim - 1)))


def of_layer_norm(*batch: int) -> Showings:
    columns = column(*batch, 3), column(3, seed=1)
    return adequacy(traced(ruled(layer_norm, layer_norm_backward), *columns))


def told(showings: Showings, part: Part) -> dict[str, Showing]:
    return {c.words: s for c, s in showings.showings.items() if c.key.part is part}


def test_a_layer_norm_of_a_batch_shows_every_change_and_of_one_row_it_does_not() -> None:
    row, batch = of_layer_norm(), of_layer_norm(5)
    assert batch.counted == batch.shown > 40
    assert row.shown < row.counted
    hidden = {(change.kind, change.words) for change in row.unseen}
    assert (Kind.AXIS, "sum over axis -1 → over all axes") in hidden
    assert (
        Kind.REDUCTION,
        "sum of a single number → mean",
    ) in hidden  # over the batch, in the rule


def test_a_batch_answers_what_a_row_left_open() -> None:
    row, batch = of_layer_norm(), of_layer_norm(5)
    for both in (row + batch, batch + row):
        assert both.unseen == []
        assert both.shown >= batch.shown


def test_of_a_norm_of_single_numbers_the_sum_is_no_sum() -> None:
    """The rule g·x/y is that of the 2-norm only: at single numbers it is right for all of them."""

    def norm(x: Any) -> Any:
        return jnp.sum(jnp.abs(x) ** 3) ** (1 / 3)

    rule = ruled(norm, lambda args, g: (g * args[0] / norm(args[0]),))
    single = adequacy(traced(rule, column()))
    assert Showing.DEGENERATE in told(single, Part.PRIMAL).values()
    assert set(told(single, Part.RULE).values()) == {Showing.SHOWN}
    assert single.shown < single.counted


def test_the_axis_of_a_library_function_is_changed_as_a_whole() -> None:
    def softmax(x: Any) -> Any:
        return jax.nn.softmax(x, axis=-1) ** 2

    found = told(adequacy(traced(softmax, column(2, 3))), Part.PRIMAL)
    assert found["`jax.nn.softmax(x, axis=-1)` over axis -1 → axis -2"] is Showing.SHOWN
    assert not any("exchanged" in words for words in found)  # inside of it, nobody writes


def test_equal_changes_and_comparisons_are_not_counted() -> None:
    def shifted(x: Any) -> Any:
        return jnp.where(x > 0, x + 3.0, 2 * x) ** 2

    showings = adequacy(traced(lambda x: jnp.exp(x - x.mean() + x.mean()) + 5, column(3)))
    found = told(showings, Part.PRIMAL)
    assert found["the term `5` dropped"] is Showing.EQUAL  # a constant has no derivative
    found = told(adequacy(traced(shifted, column(3))), Part.PRIMAL)
    assert found["`x > 0` → ≥"] is Showing.FORGIVEN


def test_a_branch_that_never_runs_is_unseen_and_a_guard_is_none() -> None:
    def late(x: Any) -> Any:
        return jnp.where(x > 50.0, 2 * x, x**2)

    def guarded(x: Any) -> Any:
        return jnp.where(x == 0.0, 1.0, x**2)

    assert [c.words for c in adequacy(traced(late, column(3))).unseen] == [
        "`x > 50.0` is never true"
    ]
    assert adequacy(traced(guarded, column(3))).unseen == []


def test_a_single_number_that_changes_nothing_asks_for_an_array() -> None:
    def weight_norm(v: Any, g: Any) -> Any:
        return g * v / jnp.sqrt(jnp.sum(v**2))

    unseen = adequacy(traced(weight_norm, column(), column(seed=1))).unseen
    assert ("`x` moved changes nothing", Kind.ARGUMENT) in [(c.words, c.kind) for c in unseen]
    assert adequacy(traced(weight_norm, column(2, 3), column(seed=1))).unseen == []


def test_what_equal_arguments_hide_is_unseen() -> None:
    rule = ruled(
        lambda x, y: jnp.sin(x) * y, lambda xy, g: (g * jnp.cos(xy[0]) * xy[1], g * jnp.sin(xy[0]))
    )
    same = told(adequacy(traced(rule, column(3), column(3))), Part.RULE)
    other = told(adequacy(traced(rule, column(3), column(3, seed=1))), Part.RULE)
    assert same["`x` used for `y`"] is Showing.UNSEEN
    assert other["`x` used for `y`"] is Showing.SHOWN


def test_a_gradient_that_autodiff_does_not_differentiate_is_not_covered() -> None:
    def straight(x: Any) -> Any:
        return x + jax.lax.stop_gradient(jnp.round(x) - x)

    showings = adequacy(traced(straight, column(3)))
    assert showings.not_covered == ("differences of its values are not its gradient",)


def test_changes_of_a_loop_end() -> None:
    def halved(x: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda i, v: v / 2 + jnp.sin(v), x)

    showings = adequacy(traced(halved, column(3)))
    assert showings.shown == showings.counted > 3


def test_a_static_that_is_moved_must_change_the_gradient() -> None:
    def power(n: int) -> Any:
        return lambda x: jnp.sum(jnp.abs(x) ** n) ** (1 / n)

    words = "`n` = 3 → 4"
    single, row = (traced(power(3), column(*shape)) for shape in ((), (3,)))
    for m, showing in ((single, Showing.EQUAL), (row, Showing.SHOWN)):
        moved = traced(power(4), column(*m.subject.leaves[0].shape)).subject.traces().primal
        assert moved is not None
        assert told(adequacy(m, [(words, moved)]), Part.PRIMAL)[words] is showing


def test_a_number_and_a_row_leave_the_axis_open_between_them() -> None:
    def share(x: Any) -> Any:
        return x / (1 + jnp.sum(x**2))

    number, row = (adequacy(traced(share, column(*shape))) for shape in ((), (3,)))
    assert Kind.AXIS in {change.kind for change in (number + row).degenerate}
    assert Kind.AXIS in {change.kind for change in (row + number).degenerate}


def segment_sum(ids: list[int]) -> Showings:
    """Squares summed in three segments, as the table of integers says."""

    def summed(x: Any, ids: Any) -> Any:
        return jnp.zeros(3).at[ids].add(x**2) ** 2

    table = Fixed(np.array(ids, np.int32), f"i32[{len(ids)}]", "test")
    return adequacy(traced(summed, column(len(ids)), fixed=[("ids", table)]))


def test_a_table_without_repeats_asks_for_another() -> None:
    words = "added where places of `ids` repeat → written once"
    assert told(segment_sum([0, 1, 2]), Part.PRIMAL)[words] is Showing.UNSEEN
    assert told(segment_sum([0, 2, 2, 0]), Part.PRIMAL)[words] is Showing.SHOWN


def test_a_mask_that_is_all_true_is_told() -> None:
    def masked(x: Any, mask: Any) -> Any:
        return jnp.where(mask, x, 0.0) ** 2

    for flags, unseen in (([True] * 3, ["`mask` is never false"]), ([True, False, True], [])):
        mask = Fixed(np.array(flags), "bool[3]", "test")
        showings = adequacy(traced(masked, column(3), fixed=[("mask", mask)]))
        assert [change.words for change in showings.unseen] == unseen


def test_a_helper_that_is_called_twice_makes_two_choices() -> None:
    def capped(x: Any, top: float) -> Any:
        return jnp.where(x < top, x, top) ** 2

    showings = adequacy(traced(lambda x: capped(x, 1e30) + capped(x, 0.0), column(3)))
    for each in (showings, showings + showings):
        assert [change.words for change in each.unseen] == ["`x < top` is never false"]


def test_a_choice_that_goes_another_way_at_another_signature_is_seen() -> None:
    def masked(x: Any, mask: Any) -> Any:
        return jnp.where(mask, x, 0.0) ** 2

    def with_flags(flags: list[bool]) -> Showings:
        mask = Fixed(np.array(flags), "bool[3]", "test")
        return adequacy(traced(masked, column(3), fixed=[("mask", mask)]))

    every, none, mixed = (with_flags(f) for f in ([True] * 3, [False] * 3, [True, False, True]))
    for both in (every + none, every + mixed, mixed + every):
        assert both.unseen == []
    assert mixed.counted == (mixed + every).counted
    assert [change.words for change in (every + every).unseen] == ["`mask` is never false"]
