"""The table of small changes: which there are of a step, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.adequacy.change import Part
from gradcheck_cli.adequacy.drafts import drafts
from gradcheck_cli.adequacy.replay import NotReplayed, replay
from gradcheck_cli.adequacy.scene import Scene
from gradcheck_cli.reals.program import Program, build

NAMES = "xyz"


def scene(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Scene:
    avals = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    program = build(jax.make_jaxpr(function)(*avals))
    return Scene(Part.PRIMAL, program, dict(zip(program.inputs, NAMES, strict=False)))


def changed(function: Callable[..., Any], words: str, *args: Any) -> Any:
    """The function's value with the change of these words, at one point."""
    rows = [np.asarray(a, float)[None] for a in args]
    here = scene(function, *(row.shape[1:] for row in rows))
    (program,) = [d.program(here.program) for d in drafts(here) if d.words == words]
    assert isinstance(program, Program)
    outputs = replay(here.program, rows).changed(program)
    return None if outputs is None else outputs[0][0]


@pytest.mark.parametrize(
    ("function", "shapes", "words"),
    [
        (lambda x, y: x - y, [(), ()], ["the term `y` dropped", "`x - y` exchanged", "`- y` → `+ y`"]),
        (lambda x, y: x * y, [(), ()], ["the factor `y` dropped", "the factor `x` dropped"]),
        (lambda x: 2 * x, [()], ["the factor `2` dropped"]),
        (lambda x: -x, [()], ["minus of `x` dropped"]),
        (lambda x: x**3, [()], ["the power 3 → 4", "the power 3 dropped"]),
        (jnp.maximum, [(), ()], ["max of `x` and `y` → min"]),
        (jnp.flip, [(3,)], ["reversal of `x` dropped"]),
        (lambda x: x[1:], [(3,)], ["slice `1:3` of axis -1 shifted by -1"]),
        (lambda x: x.T, [(3, 3)], ["transpose of `x` dropped"]),
        (lambda x: x.T, [(3, 2)], []),
        (lambda x: jnp.cumsum(x, -1), [(2, 3)], ["cumsum from the other end", "cumsum over axis -1 → axis -2"]),
        (lambda x: x.sum(0), [(2, 3)], ["sum over axis -2 → mean", "sum over axis -2 → axis -1"]),
        (lambda x: x.sum(0), [(2,)], ["sum over axis -1 → mean", "sum over axis -1 → over all axes"]),
        (lambda x: x.sum(0), [(1,)], ["sum of a single number → mean", "sum over axis -1 → over all axes"]),
        (lambda x: x.sum(0), [(0, 3)], []),
        (lambda x: x[jnp.array([0, 2, 2])], [(4,)], ["index into `x` shifted by one"]),
        (lambda x: jnp.concatenate([-x, x]), [(2,)], ["minus of `x` dropped", "`-x` and `x` exchanged"]),
        (jnp.sort, [(3,)], ["`x` sorted the other way"]),
    ],
)  # fmt: skip
def test_changes_of_a_step(function: Any, shapes: Any, words: list[str]) -> None:
    assert [
        d.words for d in drafts(scene(function, *shapes)) if " used for " not in d.words
    ] == words


def test_another_value_of_the_same_shape_is_used() -> None:
    words = [d.words for d in drafts(scene(lambda x, y: jnp.sin(x) * y, (3,), (3,)))]
    assert "`x` used for `jnp.sin(x)`" in words
    assert "`x` used for `y`" in words


def test_a_kept_axis_moves_with_its_sum() -> None:
    x = np.arange(6.0).reshape(2, 3)
    value = changed(lambda x: x - x.sum(1, keepdims=True), "sum over axis -1 → axis -2", x)
    np.testing.assert_array_equal(value, x - x.sum(0, keepdims=True))


def test_a_sum_is_dropped_where_its_axis_is_kept() -> None:
    x = np.arange(6.0).reshape(2, 3) + 1
    value = changed(lambda x: x / x.sum(1, keepdims=True), "sum over axis -1 dropped", x)
    np.testing.assert_array_equal(value, np.ones((2, 3)))


def test_a_change_that_alters_a_shape_has_no_value() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert changed(lambda x: x.sum(1), "sum over axis -1 → axis -2", x) is None


def test_repeated_places_are_written_once() -> None:
    def summed(x: Any) -> Any:
        return jnp.zeros(3).at[jnp.array([0, 2, 2])].add(x)

    value = changed(summed, "added where places repeat → written once", [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(value, [1, 0, 4])


def test_a_change_inside_a_loop_changes_every_trip() -> None:
    def doubled(x: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (carry * x, None), 1.0, None, 3)[0]

    here = scene(doubled, ())
    two = replay(here.program, [np.array([2.0])])
    programs = [program for d in drafts(here) if (program := d.program(here.program)) is not None]
    values = [outputs for program in programs if (outputs := two.changed(program)) is not None]
    assert [float(outputs[0][0]) for outputs in values] == [1.0, 2.0]  # no x, x alone


def test_a_program_without_a_walk_in_floats_says_why() -> None:
    here = scene(lambda x: jax.scipy.linalg.schur(x)[0], (2, 2))
    with pytest.raises(NotReplayed, match="`schur` is not computed in plain float64"):
        replay(here.program, [np.ones((1, 2, 2))])
