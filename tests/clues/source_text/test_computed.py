"""Arrays that a text computes, and the axes of parameters into which these are cut."""

from __future__ import annotations

from typing import Any

from tests.clues.source_text.libraries import F, fields, jnp, read, specs, tf, torch


def test_the_pieces_of_a_product_divide_the_columns_of_its_weight() -> None:
    def function(x, w, v, u):
        a, b = jnp.split(x @ w, 2, axis=-1)
        c, d, e = tf.split(tf.matmul(x, v, transpose_b=True), 3, axis=-1)
        f, g = torch.tanh(x @ u.t()).chunk(2, dim=1)
        return a, b, c, d, e, f, g

    found = read(function)
    assert found["w"].last == ("2*w_m1_part",)
    assert found["v"].last[0] == "3*v_m2_part"
    assert found["u"].spec.startswith("f32[2*u_0_part ")


def test_what_is_added_to_a_product_keeps_its_columns() -> None:
    def function(x, h, w_ih, w_hh, b):
        gates = b + x @ w_ih.t() + h @ w_hh.t()
        i, f, g, o = gates.chunk(4, dim=1)
        return i, f, g, o

    assert specs(function)["w_ih"] == "f32[4*w_ih_0_part w_ih_1]"


def test_a_layer_cut_into_pieces_of_the_size_of_a_state() -> None:
    def function(x, h, w, b):
        i, f, g = F.linear(x, w, b).split(h.shape[-1], dim=-1)
        return i, f, g

    assert specs(function)["w"].startswith("f32[3*h_m1 ")
    assert specs(function)["b"] == "f32[3*h_m1]"


def test_slices_of_so_many_times_a_dimension() -> None:
    def function(x, h, w, b):
        n = h.shape[1]
        gates = torch.addmm(b, x, w)
        return gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n :]

    assert specs(function)["w"] == "f32[w_0 3*n]"


def test_a_part_of_the_shape_of_a_product() -> None:
    def function(x, w):
        z = x @ w
        half = z.shape[-1] // 2
        return z[..., :half] * z[..., half:]

    assert read(function)["w"].last == ("2*w_m1_part",)


def test_as_many_places_as_an_axis_is_taken_apart_into() -> None:
    def function(q):
        w, x, y, z = q.unbind(-1)
        return w, x, y, z

    assert fields(function, "last") == {"q": ("4",)}


def test_any_axis_may_be_cut_where_an_argument_chooses_it() -> None:
    def function(x, dim):
        gate, up = x.chunk(2, dim=dim)
        return gate * up

    assert fields(function, "factor")["x"] == 2


def test_what_is_not_followed_is_cut_nowhere() -> None:
    def function(x, w, several: Any):
        a, b = torch.split(several(x), 2, dim=-1)
        c, d = torch.split(w, 2, dim=several)
        return a, b, c, d

    assert all(not clue.last and clue.factor == 1 for clue in read(function).values())


def test_a_gradient_that_is_returned_has_as_many_axes_as_its_argument() -> None:
    def forward(ctx, q, v, w):
        ctx.save_for_backward(q, v)
        return q @ v

    def backward(ctx, g):
        q, v = ctx.saved_tensors
        b, t, d = q.shape
        columns = (g * q).reshape(-1, d).sum(0)
        return g @ v, (q.mT @ g).view(b, 2, t, d).sum(dim=1), columns

    found = read(forward, backward)
    assert (found["v"].likely_rank, found["w"].likely_rank) == (3, 1)


def test_a_dimension_that_another_arrays_divides_is_at_least_twice_that() -> None:
    def function(q, k, *, v):
        b, heads, t, d = k.shape
        assert v.shape[-1] % d == 0
        return k.repeat_interleave(q.shape[1] // heads, dim=1), v

    found = read(function)
    assert found["q"].first == ("", "2*heads")
    assert found["q"].likely_rank == 4
    assert found["v"].last == ("2*d",)


def test_dimensions_of_one_array_are_no_multiples_of_each_other() -> None:
    def function(x):
        return x.shape[0] // x.shape[1]

    assert not fields(function, "first")


def test_gradients_of_what_a_dictionary_holds() -> None:
    def function(x, p):
        return x * p["scale"] + p["shift"] @ x

    def backward(res, g):
        x, p = res
        grads = {"scale": jnp.sum(g * x), "shift": jnp.einsum("i,j->ij", g, x)}
        return g * p["scale"], grads

    found = read(function, backward)
    assert (found["p['scale']"].likely_rank, found["p['shift']"].likely_rank) == (0, 2)


def test_axes_of_what_einsum_gives() -> None:
    def function(x, w):
        a, b = jnp.split(jnp.einsum("bi,ij->bj", x, w), 2, axis=1)
        return a * b

    assert specs(function)["w"] == "f32[i 2*j_part]"
