"""Strings that name axes."""

from __future__ import annotations

from gradcheck_cli.clues.body import clues
from tests.clues.source_text.libraries import einops, fields, jnp, read, specs
from tests.infer.fitted import parameters_of


def test_letters_of_einsum_are_axes_and_equal_ones_are_equal() -> None:
    def function(a, b):
        return jnp.einsum("bij,bjk->bik", a, b)

    assert specs(function) == {"a": "f32[b i j]", "b": "f32[b j k]"}


def test_dots_leave_the_rank_open() -> None:
    def function(a, b):
        return jnp.einsum("...ij,jk->...ik", a, b)

    found = read(function)
    assert (found["a"].least_rank, found["a"].last, found["a"].rank) == (2, ("i", "j"), None)
    assert found["b"].spec == "f32[j k]"


def test_names_of_an_unpacked_shape_come_before_letters() -> None:
    def function(x, w):
        batch, features = x.shape
        return jnp.einsum("bf,fo->bo", x, w)

    assert specs(function) == {"x": "f32[batch features]", "w": "f32[features o]"}


def test_letters_of_two_strings_are_not_equal() -> None:
    def function(a, b):
        return jnp.einsum("ij->ji", a) + jnp.einsum("ki->k", b)

    assert specs(function) == {"a": "f32[i j]", "b": "f32[k i2]"}


def test_a_letter_twice_is_a_square() -> None:
    def function(a):
        return jnp.einsum("ii->", a)

    assert specs(function) == {"a": "f32[i i]"}


def test_words_of_einops_are_axes_and_groups_are_multiples() -> None:
    def function(x, heads):
        return einops.rearrange(x, "b (h d) t -> b h d t", h=heads)

    found = read(function)
    assert found["x"].rank == 3
    assert found["x"].first[0] == "b"
    assert found["heads"].kind.name == "WHOLE"
    assert found["heads"].divides == (found["x"].first[1],)


def test_the_einsum_of_einops_has_its_string_last() -> None:
    def function(x, w):
        return einops.einsum(x, w, "batch inner, inner outer -> batch outer")

    assert specs(function) == {"x": "f32[batch inner]", "w": "f32[inner outer]"}


def test_a_string_that_does_not_fit_says_nothing() -> None:
    def function(a, b):
        return jnp.einsum("ij,jk,kl->il", a, b) + jnp.einsum(a, [0, 1])

    assert fields(function, "rank") == {}


def test_rows_of_a_table_have_the_axes_of_their_integers_first() -> None:
    def score(users, items, ids, lists):
        return jnp.einsum("bk,blk->bl", users[ids], items[lists])

    found = clues(score, parameters_of(score), ranks={"ids": 1, "lists": 2})
    assert (found["users"].spec, found["items"].spec) == ("f32[users_0 k]", "f32[items_0 k]")
