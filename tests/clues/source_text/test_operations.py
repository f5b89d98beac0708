"""Operations that ask for a rank or a kind."""

from __future__ import annotations

from gradcheck_cli.inputs.clue import Kind
from tests.clues.source_text.libraries import (
    F,
    fields,
    jax,
    jnp,
    kinds,
    lax,
    nn,
    ranks,
    read,
    tf,
    torch,
    values,
)


def test_a_matrix_of_linalg_is_square() -> None:
    def function(a, b):
        return jnp.linalg.solve(a, b)

    found = read(function)["a"]
    assert found.least_rank == 2
    assert found.last[0] == found.last[1] != ""


def test_a_square_matrix_whose_rank_stands_elsewhere_has_one_name() -> None:
    def function(a):
        n, _ = a.shape
        return jnp.linalg.inv(a)

    assert fields(function, "spec") == {"a": "f32[n n]"}


def test_convolutions_have_their_ranks() -> None:
    def function(x, weight, bias, lhs, rhs, signal, kernel):
        images = F.conv2d(x, weight, bias=bias)
        layout = ("NHC", "HIO", "NHC")
        other = lax.conv_general_dilated(
            lhs, rhs, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")
        )
        return images, layout, other, jnp.convolve(signal, kernel)

    assert ranks(function) == {
        "x": 4, "weight": 4, "bias": 1, "lhs": 3, "rhs": 3, "signal": 1, "kernel": 1
    }  # fmt: skip


def test_inner_dimensions_of_a_product_are_equal() -> None:
    def function(x, w, b):
        n, m = w.shape
        return x @ w + b

    found = read(function)
    assert found["x"].last == ("n",)


def test_rows_of_linear_are_outputs() -> None:
    def function(x, w, b):
        out, inner = w.shape
        return F.linear(x, w, b)

    found = read(function)
    assert (found["x"].last, found["b"].spec) == (("inner",), "f32[out]")


def test_segments_have_integers_below_their_number() -> None:
    def function(data, ids, count):
        return jax.ops.segment_sum(data, ids, num_segments=count)

    found = read(function)
    assert (found["ids"].kind.name, found["ids"].rank, found["ids"].domain) == (
        "INTEGERS",
        1,
        "in 0..count",
    )
    assert found["data"].first == found["ids"].first
    assert found["count"].kind.name == "WHOLE"


def test_tables_are_read_at_integers() -> None:
    def function(x, idx, table, ids, w, rows, labels, k):
        a = jnp.take_along_axis(x, idx, axis=1)
        b = F.embedding(ids, table)
        c = w.index_select(0, rows)
        return a, b, c, nn.one_hot(labels, k)

    assert kinds(function) == {
        "idx": "INTEGERS", "ids": "INTEGERS", "rows": "INTEGERS", "labels": "INTEGERS", "k": "WHOLE"
    }  # fmt: skip
    domains = fields(function, "domain")
    assert domains["labels"] == "in 0..k"
    assert domains["ids"].removeprefix("in 0..") == read(function)["table"].first[0]


def test_masks_are_booleans() -> None:
    def function(x, mask, other, third):
        return jnp.where(mask, x, 0), x.masked_fill(other, 0.0), ~third

    assert kinds(function) == {"mask": "BOOLS", "other": "BOOLS", "third": "BOOLS"}


def test_seeds_keys_dtypes_and_shapes_are_told_apart() -> None:
    def function(x, key, seed, dtype, shape, other):
        noise = jax.random.normal(key, shape)
        return jax.random.PRNGKey(seed), noise, x.astype(dtype), x.reshape(other)

    assert kinds(function) == {
        "key": "KEY", "shape": "SHAPE", "seed": "WHOLE", "dtype": "DTYPE", "other": "SHAPE"
    }  # fmt: skip
    assert values(function)["seed"] == (0, 1)


def test_what_is_called_is_a_function() -> None:
    def function(f, g, h, x, xs):
        return f(x), jax.vmap(g), lax.scan(h, x, xs)

    assert kinds(function) == {"f": "FUNCTION", "g": "FUNCTION", "h": "FUNCTION"}
    assert read(function)["xs"].least_rank == 1


def test_integers_that_are_cast_before_they_index_are_integers() -> None:
    def function(x, labels, position):
        i = jnp.floor(position).astype(jnp.int32)
        return x[labels.astype(jnp.int32)] + x[i] + torch.exp(position)

    assert kinds(function) == {"labels": "INTEGERS"}


def test_labels_in_another_shape_are_integers_still() -> None:
    def function(logits, labels, mask, targets):
        n, c = logits.shape
        chosen = jnp.take_along_axis(jnp.log(logits), labels[:, None], axis=1)
        other = torch.gather(logits, 1, targets.unsqueeze(1))
        return jnp.where(mask.reshape(-1, 1), chosen, other)

    assert kinds(function) == {"labels": "INTEGERS", "targets": "INTEGERS", "mask": "BOOLS"}
    assert fields(function, "domain") == {"labels": "in 0..c", "targets": "in 0..c"}


def test_a_turned_operand_has_its_inner_dimension_elsewhere() -> None:
    def function(x, weight, q, k, a, b):
        out, inner = weight.shape
        scores = q @ k.transpose(-1, -2) + tf.matmul(a, b, transpose_b=True)
        return x @ weight.T, scores

    found = read(function)
    assert found["x"].last == ("inner",)
    assert found["q"].last == found["k"].last
    assert found["a"].last == found["b"].last
    assert found["k"].least_rank == 2


def test_one_of_two_functions_is_read_as_the_first_of_them() -> None:
    def function(x, ids, count, average):
        pool = tf.math.unsorted_segment_mean if average else tf.math.unsorted_segment_sum
        return pool(x, ids, count)

    assert read(function)["ids"].domain == "in 0..count"


def test_rows_are_added_one_for_each_integer() -> None:
    def function(sums, rows, ids):
        return sums.index_add(0, ids, rows)

    found = read(function)
    assert found["ids"].rank == 1
    assert found["ids"].first[0] == found["rows"].first[0]


def test_integers_have_a_spare_place_behind_the_last() -> None:
    def function(x, ids, count):
        slot = jnp.where(ids >= 0, ids, count)
        return jax.ops.segment_sum(x, slot, num_segments=count + 1)[:count]

    found = read(function)["ids"]
    assert (found.kind, found.domain) == (Kind.INTEGERS, "in 0..count")


def test_zeros_of_float0_are_no_gradient() -> None:
    def rises(x, n):
        real = jnp.arange(x.shape[1]) < n[:, None]

        def pull(g):
            return g * real, jnp.zeros(n.shape, jax.dtypes.float0)

        return jnp.sum(x * real), pull

    found = read(rises)["n"]
    assert (found.kind, found.declined, found.answered) == (Kind.INTEGERS, True, False)


def test_a_slope_that_is_chosen_above_zero_is_no_count() -> None:
    def function(x, a, b):
        return jnp.dot(jnp.where(x > 0, a, b), x)

    assert not any(clue.domain for clue in read(function).values())
