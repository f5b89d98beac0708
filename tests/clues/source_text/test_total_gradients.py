"""A total, by what is made of the parameter alone, is the gradient of a single number."""

from __future__ import annotations

import pytest

from tests.clues.source_text.libraries import jnp, read


def likelihood(score, noise):
    return jnp.sum(score / noise)


def by_a_total(ctx, g):
    dz, score, noise = ctx.saved_tensors
    g_noise = -(dz * score).sum() / noise
    return g * dz, g_noise


def by_its_square(res, g):
    score, noise = res
    return g / noise, -2 * jnp.sum(g * score) / noise**2


def by_what_it_is_in(res, g):
    score, noise = res
    scale = 0.5 * jnp.exp(-2.0 * noise)
    return g / noise, jnp.sum(g * score * scale) * 2.0 * scale


def by_what_holds_another(res, g):
    score, noise = res
    scale = 0.5 * jnp.exp(-2.0 * noise) * score
    return g / noise, jnp.sum(g * score) * 2.0 * scale


def by_each_of_its_own(res, g):
    score, noise = res
    return g / noise, -g * score / noise


def beside_another_array(res, g):
    score, noise = res
    return g / noise, score * jnp.sum(g) / noise


def along_an_axis(res, g):
    score, noise = res
    return g / noise, jnp.sum(g * score, axis=0) / noise


@pytest.mark.parametrize(
    ("backward", "rank"),
    [
        (by_a_total, 0),
        (by_its_square, 0),
        (by_what_it_is_in, 0),
        (by_what_holds_another, None),
        (by_each_of_its_own, None),
        (beside_another_array, None),
        (along_an_axis, None),
    ],
)
def test_a_total_by_a_parameter_says_that_it_has_no_axes(backward, rank) -> None:
    found = read(likelihood, backward)
    assert (found["noise"].rank if "noise" in found else None) == rank
    assert found.get("score") is None or found["score"].rank is None


def test_what_the_function_adds_up_by_itself_may_have_axes() -> None:
    def squared(score, noise):
        return jnp.sum(score) * jnp.sum(noise**2)

    def by_twice_itself(res, g):
        score, noise = res
        return g * jnp.sum(noise**2), jnp.sum(g * score) * 2 * noise

    assert "noise" not in read(squared, by_twice_itself)


def test_what_is_indexed_has_axes_all_the_same() -> None:
    def indexed(score, noise):
        return jnp.sum(score / noise[:, None])

    assert read(indexed, by_a_total)["noise"].rank != 0
