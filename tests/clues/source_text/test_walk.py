"""The text of functions: what is followed, and where following ends."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.clues.body import clues
from tests.clues.source_text.libraries import jax, jnp, lax, least_ranks, read, specs
from tests.infer.fitted import parameters_of


def rows(a, count):
    n, d = a.shape
    return a[:count]


def deeper(a):
    return rows(a, 1)


square = lambda x: x[:, 0] ** 2


def test_names_that_stand_for_a_parameter_are_followed() -> None:
    def function(x):
        y = jnp.exp(-2.0 * x)
        z = y
        return z[:, 0]

    assert least_ranks(function) == {"x": 2}


def test_a_reshape_ends_the_following() -> None:
    def function(x):
        h = x.reshape(-1, 4)
        n, d = h.shape
        return h[:, 0]

    assert read(function) == {}


def test_what_a_branch_changes_is_not_followed() -> None:
    def function(x, flat):
        if flat:
            x = x.ravel()
        return x[:, 0]

    assert "x" not in read(function)


def test_shapes_in_a_branch_on_the_shape_say_nothing() -> None:
    def function(x):
        if x.ndim == 2:
            n, d = x.shape
        return x if x.ndim < 3 else x[:, :, 0]

    assert (specs(function), least_ranks(function)) == ({}, {})


def test_loops_change_their_names() -> None:
    def function(x, y):
        for _ in range(3):
            z = y[0, 0]
            x = x[None] + z
        return x[:, :, 0]

    assert least_ranks(function) == {"y": 2}


def test_a_function_inside_has_parameters_of_its_own() -> None:
    def function(x, y):
        def inner(x):
            return x[:, 0] + y[:, :, 0]

        return inner

    assert least_ranks(function) == {"y": 3}


def test_functions_of_the_module_are_read_one_level_deep() -> None:
    def function(x, k):
        return rows(x, k)

    def further(x):
        return deeper(x)

    found = read(function)
    assert (found["x"].spec, found["k"].kind.name) == ("f32[n d]", "WHOLE")
    assert read(further) == {}


def test_a_lambda_has_a_text() -> None:
    assert least_ranks(square) == {"x": 2}


def test_the_source_is_the_line_that_says_most() -> None:
    def function(x):
        y = x[0, 0]
        n, d = x.shape
        return y

    assert read(function)["x"].source == "the body `n, d = x.shape`"


def test_a_function_without_a_source_has_no_clues() -> None:
    assert clues(np.tanh, parameters_of(np.tanh)) == {}
    assert clues(eval("lambda x: x[0, 0]"), parameters_of(rows)) == {}


def test_syntax_that_is_not_followed_says_nothing() -> None:
    async def function(x, y):
        async with x as z:
            await z
        least = [*x, *[i async for i in y]]
        del x
        yield f"{least!r:>{y}}"

    assert {c.kind.name for c in read(function).values()} <= {"NOTHING"}


def centred(row):
    return row[0] - row[:, 1].mean()


def test_functions_over_a_leading_axis_see_rows() -> None:
    def function(xs, h0, weight, ys):
        def step(h, x):
            return h @ weight.T + x[:, 0], h

        return lax.scan(step, h0, xs), jax.vmap(centred)(ys)

    assert least_ranks(function) == {"xs": 3, "h0": 1, "weight": 2, "ys": 3}


def test_what_is_centred_and_scaled_keeps_its_shape() -> None:
    def function(x, weight, eps=1e-5):
        centre = x - x.mean(axis=-1, keepdims=True)
        scale = jnp.sqrt(jnp.mean(centre**2, axis=-1, keepdims=True) + eps)
        y = jnp.maximum(centre / scale, 0.0) / x.shape[-1]
        return y[:, 0] * weight

    assert least_ranks(function) == {"x": 2}


def test_arrays_of_different_shapes_are_not_followed_through_a_product() -> None:
    def function(x, weight):
        y = x * weight
        return y[:, 0]

    assert least_ranks(function) == {}


def test_a_parameter_of_several_types_is_no_array_and_no_function() -> None:
    def function(x, rate, bins):
        step = rate(1) if callable(rate) else rate
        size = len(bins) if isinstance(bins, list) else bins.size
        return x * step + size

    assert read(function) == {}


def test_the_length_of_a_list_is_no_axis() -> None:
    def function(xs, x):
        return len(xs) + x

    assert least_ranks(function) == {}


def first_of(*arrays):
    return arrays[0][:, 0]


def test_arguments_of_a_starred_parameter_are_not_told_apart() -> None:
    def function(x, y):
        return first_of(x, y)

    assert read(function) == {}
