"""Whole numbers that rest on no argument are known while torch code is traced."""

from __future__ import annotations

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


def in_segments(x: Any) -> Any:
    """As Keras adds up segments on torch: the length of the places hangs on numbers in a tensor."""
    count = torch.prod(torch.tensor(x.shape[1:])).long()
    places = torch.tensor([0, 2, 0]).repeat_interleave(count).view(*x.shape)
    return torch.zeros(3, 2).scatter_reduce(0, places, x, "sum")


def in_segments_of_numbers(x: Any) -> Any:
    """Numbers have no further axes: the product of no sizes is a float to torch."""
    numbers = x[:, 0]
    count = torch.prod(torch.tensor(numbers.shape[1:])).long()
    places = torch.tensor([0, 2, 0]).repeat_interleave(count).view(3)
    return torch.zeros(3).scatter_reduce(0, places, numbers, "sum")


def written_into(x: Any) -> Any:
    made = torch.zeros(4)
    made[1:] = x[:, 0]
    return made


def repeated(x: Any) -> Any:
    return x.repeat_interleave(COUNTS, 0) * x.repeat_interleave(torch.tensor([2]), dim=1)[:, :2]


def repeated_flat(x: Any) -> Any:
    return x.repeat_interleave(torch.tensor([1, 2, 0, 1, 1, 1]))


def of_a_table(x: Any) -> Any:
    """What numpy holds is known as well, and so is how long it is repeated."""
    places = torch.as_tensor(np.array([0, 2], "int32")).repeat_interleave(torch.tensor(2))
    return x[places.long()]


COUNTS = torch.tensor([1, 2, 0])


@pytest.mark.parametrize(
    "function",
    [in_segments, in_segments_of_numbers, written_into, repeated, repeated_flat, of_a_table],
)
def test_sizes_that_stand_in_tensors_are_known(function: Any) -> None:
    from gradcheck_cli.frameworks.torch.trace import traced

    x = torch.tensor([[3.0, 1.0], [4.0, 1.0], [5.0, 9.0]])
    program = traced(function, [jax.ShapeDtypeStruct((3, 2), "float32")])
    (value,) = jax.core.eval_jaxpr(program.jaxpr, program.consts, x.numpy())
    assert value.tolist() == function(x).tolist()
