"""Trees told from row vectors."""

from __future__ import annotations

from tests.clues.source_text.libraries import jnp, kinds, read


def test_elements_that_are_stacked_again_are_of_a_vector() -> None:
    def function(q):
        w, x, y, z = q
        return jnp.stack([w * x, -y, z, w])

    found = read(function)["q"]
    assert (found.first, found.kind.name, found.least_rank) == (("4",), "ARRAY", 1)


def test_elements_that_are_used_as_arrays_are_of_a_tree() -> None:
    def function(layer, x):
        w, b = layer
        n, m = w.shape
        return x @ w + b

    found = read(function)
    assert (found["layer"].kind.name, found["layer[0]"].spec) == ("TREE", "f32[n m]")
    assert found["x"].last == ("n",)


def test_values_of_a_dictionary_have_clues_of_their_own() -> None:
    def function(params, x):
        h = jnp.einsum("bi,io->bo", x, params["w"])
        return h + params["b"][None, :]

    found = read(function)
    assert kinds(function) == {"params": "TREE"}
    assert found["params['w']"].spec == "f32[i o]"
    assert found["params['b']"].least_rank == 1


def test_what_is_only_taken_apart_is_neither() -> None:
    def function(pair, point):
        a, b = pair
        return a * b + point[0] * point[1]

    assert read(function) == {}


def test_layers_that_a_loop_takes_apart_are_a_tree_and_points_are_neither() -> None:
    def function(layers, points, x):
        for w, b in layers[:-1]:
            x = x @ w + b
        for a, c in points:
            x = x + a * c
        return x + points[0]

    assert kinds(function) == {"layers": "TREE"}
