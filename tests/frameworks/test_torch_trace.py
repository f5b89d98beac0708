"""What torch's own operations become while they are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("torch"),
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype"),  # a worker is silent
]

TABLE = torch.tensor([[0, 1, 2], [4, 1, 0]])


def of_its_rows(x: Any) -> Any:
    return x[TABLE[torch.arange(2), torch.tensor([1, 2]) - 1]]


def in_a_wider_type(x: Any) -> Any:
    return x[:2].to(torch.promote_types(x.dtype, torch.float64))


def with_a_running_peak(x: Any) -> Any:
    peaks, places = torch.cummax(x.reshape(1, 5), -1)
    return peaks + places


def beside_numbers(x: Any) -> Any:
    return x + x.new_tensor([1.0, 2.0, 3.0, 4.0, 5.0])


def right_of_equal_numbers(x: Any) -> Any:
    return torch.searchsorted(torch.tensor([1.0, 1.0, 3.0]), x, right=True) + x


def among_the_edges_of_each_row(x: Any) -> Any:
    edges = torch.tensor([[0.0, 1.0, 2.0, 4.0], [5.0, 3.0, 1.0, 0.0]])
    order = torch.argsort(edges, -1)
    wanted = torch.stack([x[:3], x[2:]])
    return torch.searchsorted(edges, wanted, side="left", sorter=order, out_int32=True) + wanted


def with_parts_of_a_table_written(x: Any) -> Any:
    later = TABLE.new_full((2, 3, 2), 1)
    later[:, :2, 0] = TABLE[:, 1:]
    later[:, 0, 1] = TABLE[:, 2]
    return x[later].sum(1)


def with_numbers_written_into_a_part(x: Any) -> Any:
    rows = TABLE[:1].to(x.dtype).repeat(2, 1)
    rows[:, 1] = x[:2]
    return rows.sum(0) * x[2:]


def at_a_label(x: Any) -> Any:
    return torch.nn.functional.nll_loss(x[None], torch.tensor([2])).reshape(1)


def through_a_window(x: Any) -> Any:
    return (x * torch.hann_window(5))[None].mT.flatten()


def added_up_along_the_last_axis(x: Any) -> Any:
    return torch.round(1000 * torch.logcumsumexp(x, -1))


@pytest.mark.parametrize(
    "function",
    [
        at_a_label,
        through_a_window,
        added_up_along_the_last_axis,
        with_parts_of_a_table_written,
        with_numbers_written_into_a_part,
        of_its_rows,
        in_a_wider_type,
        with_a_running_peak,
        beside_numbers,
        right_of_equal_numbers,
        among_the_edges_of_each_row,
    ],
)
def test_the_program_gives_what_the_call_gives(function: Callable[[Any], Any]) -> None:
    from gradcheck_cli.frameworks.torch.trace import traced

    x = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0])
    program = traced(function, [jax.ShapeDtypeStruct((5,), "float32")])
    (value,) = jax.core.eval_jaxpr(program.jaxpr, program.consts, x.numpy())
    assert value.tolist() == function(x).tolist()


@pytest.mark.parametrize("copy", [lambda x: x.new_tensor(x), torch.tensor])
def test_what_is_copied_into_a_new_tensor_has_no_gradient(copy: Callable[[Any], Any]) -> None:
    from gradcheck_cli.frameworks.torch.trace import traced

    program = traced(lambda x: x * copy(x), [jax.ShapeDtypeStruct((2,), "float32")])

    def call(x: Any) -> Any:
        return jax.core.eval_jaxpr(program.jaxpr, program.consts, x)[0]

    value, back = jax.vjp(call, jax.numpy.array([3.0, 5.0]))
    assert value.tolist() == [9, 25]
    (gradient,) = back(jax.numpy.ones(2))
    assert gradient.tolist() == [3, 5]


@pytest.mark.parametrize("axes", [1, 2])
def test_transposed_convolutions_keep_the_channels_of_their_groups(axes: int) -> None:
    from gradcheck_cli.frameworks.torch.trace import traced

    convolve = (torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d)[
        axes - 1
    ]
    numbers = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 2, *[3] * axes, generator=numbers)
    bias = torch.arange(6.0)

    def call(x: Any) -> Any:
        return convolve(
            x, weight, bias, stride=2, padding=1, output_padding=1, groups=3, dilation=2
        )

    x = torch.randn(2, 6, *[4] * axes, generator=numbers)
    program = traced(call, [jax.ShapeDtypeStruct(tuple(x.shape), "float32")])
    (value,) = jax.core.eval_jaxpr(program.jaxpr, program.consts, x.numpy())
    torch.testing.assert_close(torch.tensor(jax.device_get(value)), call(x))


def through_numpy(x: Any) -> Any:
    array = x.detach().cpu().numpy()
    kept = np.where(array > 2, array, 0) * np.sum(array, axis=-1, keepdims=True)
    return torch.from_numpy(np.cumsum(kept * np.float32(0.5)).astype(np.float32))


def written_in_numpy(x: Any) -> Any:
    array = x.numpy().copy()
    array[1:3] *= 2
    array[array > 4] = -1
    np.add(array, 1, out=array)
    array.sort()
    return torch.tensor(array)


def seen_twice(x: Any) -> Any:
    array = x.numpy()
    first = array[:2]
    array[0] = 1
    return torch.tensor(first)


def written_through_numpy(x: Any) -> Any:
    x = x.clone()
    np.negative(x.detach().numpy(), x.numpy())
    return x


def by_other_spellings(x: Any) -> Any:
    out = x.new_empty(0)
    torch.mul(x.reshape(1, 5), 2, out=out)
    order = torch.argsort(out, axis=1)
    return torch.take_along_dim(out, order, dim=1).sum(axis=0, keepdims=True)


def by_a_custom_op(x: Any) -> Any:
    return doubled_by_numpy(x + 1)


@torch.library.custom_op("cgcheck_tests::doubled_by_numpy", mutates_args=())
def doubled_by_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(2 * x.numpy())


@pytest.mark.parametrize(
    "function",
    [
        through_numpy,
        written_in_numpy,
        written_through_numpy,
        seen_twice,
        by_other_spellings,
        by_a_custom_op,
    ],
)
def test_what_leaves_torch_or_calls_by_another_name_is_traced(
    function: Callable[[Any], Any],
) -> None:
    test_the_program_gives_what_the_call_gives(function)


def into_numpys_own(x: Any) -> Any:
    out = np.zeros(5)
    np.multiply(x.numpy(), 2, out=out)
    return torch.tensor(out)


def test_what_is_written_into_an_array_of_numpys_own_is_not_traced() -> None:
    from gradcheck_cli.frameworks.shared.tracing import Untraceable
    from gradcheck_cli.frameworks.torch.trace import traced
    from gradcheck_cli.subject.user_code import UserCodeError

    with pytest.raises((Untraceable, UserCodeError)):
        traced(into_numpys_own, [jax.ShapeDtypeStruct((5,), "float32")])


def by_rows(x: Any) -> Any:
    kept = torch.zeros(2, 3)
    kept.select(1, 0).add_(x[:2])
    kept.select(index=2, dim=-1).copy_(kept.select(1, 0) * 2)
    for row, number in zip(kept.unbind(0), x, strict=False):
        row.narrow(0, 1, 2).mul_(number)
    return kept


def test_parts_share_the_memory_of_the_whole() -> None:
    test_the_program_gives_what_the_call_gives(by_rows)


def written_where_it_is_told(x: Any) -> Any:
    array = x.numpy().copy()
    np.copyto(array, 0, where=array < 2)
    array.reshape(5)[:1].sum()
    return torch.tensor(array)


def copied_elsewhere(x: Any) -> Any:
    other = x.to("cpu", copy=True)
    other[other > 2] = 2
    return x * other


def resized(x: Any) -> Any:
    same = (2 * x).resize_(5).clone()
    return same.resize_as_(x[:3])


@pytest.mark.parametrize("function", [written_where_it_is_told, copied_elsewhere, resized])
def test_what_is_asked_for_is_done(function: Callable[[Any], Any]) -> None:
    test_the_program_gives_what_the_call_gives(function)


def through_a_view(x: Any) -> Any:
    array = x.numpy().copy()
    np.ravel(array)[0] = 1
    return torch.tensor(array)


def beside_a_tensor(x: Any) -> Any:
    array = x.numpy().copy()
    tensor = torch.from_numpy(array)
    array *= 2
    return tensor


def with_another_shape(x: Any) -> Any:
    array = x.numpy().copy()
    array.shape = (5, 1)
    return torch.tensor(array)


def without_a_copy(x: Any) -> Any:
    array = x.numpy().copy()
    np.nan_to_num(array, copy=False)
    return torch.tensor(array)


@pytest.mark.parametrize(
    "function", [through_a_view, beside_a_tensor, with_another_shape, without_a_copy]
)
def test_what_shares_memory_unseen_is_not_traced(function: Callable[[Any], Any]) -> None:
    from gradcheck_cli.frameworks.shared.tracing import Untraceable
    from gradcheck_cli.frameworks.torch.trace import traced
    from gradcheck_cli.subject.user_code import UserCodeError

    with pytest.raises((Untraceable, UserCodeError)):
        traced(function, [jax.ShapeDtypeStruct((5,), "float32")])


def test_a_tail_of_the_normal_distribution_is_not_taken_apart() -> None:
    from gradcheck_cli.frameworks.torch.trace import traced

    def tail(x: Any) -> Any:
        return torch.special.log_ndtr(x)

    x = torch.tensor([-200.0, -27.0, 3.0])
    program = traced(tail, [jax.ShapeDtypeStruct((3,), "float32")])
    (value,) = jax.core.eval_jaxpr(program.jaxpr, program.consts, x.numpy())
    # Near 0 JAX's own has fewer digits than torch's: 2e-5 of it were met.
    np.testing.assert_allclose(value, tail(x), rtol=1e-4)
