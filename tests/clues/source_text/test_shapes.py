"""Shapes that a text takes apart."""

from __future__ import annotations

from tests.clues.source_text.libraries import fields, keras, least_ranks, ranks, read, specs, tf


def test_an_unpacked_shape_has_its_rank_and_its_names() -> None:
    def function(x):
        b, t, d = x.shape
        return x.reshape(b * t, d)

    assert specs(function) == {"x": "f32[b t d]"}


def test_equal_names_are_equal_dimensions() -> None:
    def function(a, b):
        n, k = a.shape
        k, m = b.shape
        return a @ b

    assert specs(function) == {"a": "f32[n k]", "b": "f32[k m]"}


def test_names_of_different_texts_are_not_equal() -> None:
    def function(a, b):
        (n,) = a.shape
        return [n + 1 for n in b.shape]

    assert specs(function) == {"a": "f32[n]"}


def test_one_name_for_two_dimensions_gets_a_number() -> None:
    def function(a, b):
        n = a.shape[0]
        n = b.shape[0]
        return n

    assert fields(function, "first") == {"a": ("n",), "b": ("n2",)}


def test_an_indexed_shape_says_how_many_axes_there_are_at_least() -> None:
    def function(x, y, z, w):
        return x.shape[0] + y.shape[-2] + z.size(1) + w.shape[2:][0]

    assert least_ranks(function) == {"x": 1, "y": 2, "z": 2, "w": 3}


def test_shape_functions_of_libraries_are_shapes() -> None:
    def function(x, y, z):
        n, d = tf.shape(x)
        b, c = keras.ops.shape(y)
        return tf.shape(z)[1] + z.shape.as_list()[2]

    assert specs(function) == {"x": "f32[n d]", "y": "f32[b c]"}
    assert least_ranks(function)["z"] == 3


def test_the_last_axes_of_an_open_shape_have_names() -> None:
    def function(x, y):
        *batch, n, d = x.shape
        h, w = y.shape[-2:]
        return batch, n, d, h, w

    found = read(function)
    assert (found["x"].last, found["x"].least_rank, found["x"].spec) == (("n", "d"), 2, "")
    assert (found["y"].last, found["y"].rank) == (("h", "w"), None)


def test_asserted_ranks_and_sizes_are_read() -> None:
    def function(x, y, z, w, v):
        assert x.ndim == 2
        assert len(y.shape) >= 3
        assert z.dim() in (2, 3)
        if w.ndim != 1:
            raise ValueError
        if v.shape[-1] != 3:
            raise ValueError
        return x

    assert ranks(function) == {"x": 2, "w": 1}
    assert least_ranks(function) == {"x": 2, "y": 3, "z": 2, "w": 1, "v": 1}
    assert fields(function, "last") == {"v": ("3",)}


def test_dimensions_that_a_check_holds_equal_are_equal() -> None:
    def function(x, weight, bias):
        assert weight.ndim == 2
        if x.shape[-1] != weight.shape[0]:
            raise ValueError
        assert bias.shape == (weight.shape[1],)
        return x @ weight + bias

    found = read(function)
    rows, columns = found["weight"].first
    assert rows != columns
    assert (found["x"].last, found["bias"].first) == ((rows,), (columns,))


def test_arrays_of_one_shape_share_it() -> None:
    def function(x, y):
        assert x.shape == y.shape
        n, d = y.shape
        return n * d

    assert specs(function) == {"x": "f32[n d]", "y": "f32[n d]"}


def test_two_ranks_of_one_array_say_nothing() -> None:
    def function(x):
        n, d = x.shape
        b, n, d = x.shape
        return b

    assert ranks(function) == {}
