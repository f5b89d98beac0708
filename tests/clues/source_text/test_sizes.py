"""Whole numbers that serve as sizes."""

from __future__ import annotations

from tests.clues.source_text.libraries import F, fields, jnp, kinds, lax, ranks, read, torch, values


def test_counts_strides_and_shifts_are_whole_numbers() -> None:
    def function(x, n, k, stride, shift, steps=4):
        for _ in range(n):
            x = x + 1
        y = lax.top_k(x, k)
        z = F.conv1d(x, x, stride=stride)
        return y, z, jnp.roll(x, shift), lax.fori_loop(0, steps, lambda i, v: v, x)

    assert set(kinds(function).values()) == {"WHOLE"}
    assert values(function)["steps"][0] == 4
    assert values(function)["shift"] == (1, 2, -1)


def test_sizes_of_a_new_shape_are_whole_numbers() -> None:
    def function(x, heads, rows, columns):
        return x.reshape(2, heads, -1) + torch.zeros(rows, 3) + jnp.zeros((columns, 2))

    assert kinds(function) == {"heads": "WHOLE", "rows": "WHOLE", "columns": "WHOLE"}


def test_what_may_be_a_size_or_a_shape_is_neither() -> None:
    def function(size):
        return jnp.zeros(size)

    assert kinds(function) == {}


def test_what_integers_write_into_is_as_long_as_a_whole_number_says() -> None:
    def function(gates, group, groups, rows, table, shape):
        width = gates.new_zeros(groups).index_add_(0, group, gates)
        alike = gates.new_zeros(shape).index_add_(0, group, gates)
        return width, torch.zeros(rows).index_add(0, table, gates), alike

    found = kinds(function)
    assert (found["groups"], found["rows"]) == ("WHOLE", "WHOLE")
    assert "shape" not in found


def test_an_axis_that_is_parted_is_a_multiple() -> None:
    def function(x, y):
        half = x.shape[-1] // 2
        a, b = jnp.split(y, 4, axis=-1)
        return x[..., :half] * a, x[..., half:] * b

    assert fields(function, "last") == {"x": ("2*x_m1_part",), "y": ("4*y_m1_part",)}


def test_half_of_a_window_lies_beside_its_centre() -> None:
    def function(x, kernel, y):
        reach = kernel.shape[0] // 2
        size = y.shape[0] // 2
        return jnp.pad(x, reach) + kernel + y[:size]

    assert fields(function, "first") == {"kernel": ("2*kernel_0_half+1",), "y": ("2*y_0_part",)}


def test_a_tuple_with_an_entry_for_each_axis_is_the_rank() -> None:
    def function(x, y, k):
        z = lax.reduce_window(x, 0.0, lax.add, (1, k, k, 1), (1, 1, 1, 1), "VALID")
        return z, jnp.pad(y, ((0, 0), (1, 1)))

    assert ranks(function) == {"x": 4, "y": 2}
    assert kinds(function) == {"k": "WHOLE"}


def test_a_stride_that_may_be_left_out_is_one() -> None:
    def function(x, k, stride=None):
        step = stride or k
        return lax.reduce_window(x, 0.0, lax.add, (k,), (step,), "VALID")

    assert values(function)["stride"] == (None, 2, 1, 3)


def test_a_tuple_without_entries_says_nothing() -> None:
    def function(x, y):
        return jnp.pad(x, ()), F.pad(y, [])

    assert ranks(function) == {}


def test_members_that_count_make_a_tuple_of_sizes() -> None:
    def pool(x, kernel, stride, padding):
        top, side = padding
        x = jnp.zeros((top, side)) + x
        return [x[i : kernel[1] : stride[1]] for i in range(kernel[0]) for _ in range(stride[0])]

    assert kinds(pool) == dict.fromkeys(("kernel", "stride", "padding"), "SHAPE")
    assert values(pool)["kernel"] == ((3, 2), (2, 3))
    assert values(pool)["stride"] == ((2, 1), (1, 2))


class Pool:
    @staticmethod
    def starts(n, width):
        return range(n - width[0], width[1])


def test_static_methods_of_the_module_are_read() -> None:
    def pool(x, window):
        return [x[i] for i in Pool.starts(len(x), window)]

    assert kinds(pool) == {"window": "SHAPE"}


def test_what_is_left_out_is_what_is_given_otherwise() -> None:
    def pool(x, width, step=None):
        step = width if step is None else step
        return x.unfold(0, width, step)

    assert kinds(pool) == {"width": "WHOLE", "step": "WHOLE"}


def test_entries_of_a_tuple_of_sizes_divide_axes() -> None:
    def f(x, patch):
        b, h, w = x.shape
        ph, pw = patch
        return x.reshape(b, h // ph, ph, w // pw, pw)

    (first, second) = read(f)["patch"].entries
    assert (first.name, first.divides) == ("ph", ("h",))
    assert (second.name, second.divides) == ("pw", ("w",))


def test_of_two_numbers_one_divides_the_other() -> None:
    def f(x, heads, kv_heads):
        return x * (heads // kv_heads)

    assert values(f)["heads"][0] == 4
    assert values(f)["kv_heads"][0] == 2


def test_places_that_a_number_divides_are_a_table() -> None:
    def f(table, ids, buckets):
        return table[ids // buckets]

    assert kinds(f)["ids"] == "INTEGERS"


def test_what_is_counted_up_to_is_a_whole_number() -> None:
    def function(x, first, last, start, stop, turns):
        ranks = jnp.arange(first, last + 1)
        times = jnp.arange(start, stop, 0.5)
        for _ in range(turns - 1):
            x = x + 1
        return x[..., None] * ranks, times

    assert kinds(function) == dict.fromkeys(("first", "last", "start", "turns"), "WHOLE")


def test_what_is_spread_over_a_range_says_nothing() -> None:
    def function(x, limits):
        for _ in range(*limits):
            x = x + 1
        return x * jnp.arange(*limits)

    assert "limits" not in {name for name, kind in kinds(function).items() if kind == "WHOLE"}


def test_a_number_of_which_steps_are_taken_is_no_whole_one() -> None:
    def function(x, width, sigma):
        half = width / 2
        return x[..., None] * jnp.arange(half - 1), jnp.arange(jnp.ceil(sigma) + 1)

    assert kinds(function) == {}
