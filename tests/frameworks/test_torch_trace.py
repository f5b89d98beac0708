"""What torch's own operations become while they are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


@pytest.mark.parametrize("function", [of_its_rows, in_a_wider_type])
def test_the_program_gives_what_the_call_gives(function: Callable[[Any], Any]) -> None:
    from gradcheck_cli.frameworks.torch.trace import traced

    x = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0])
    program = traced(function, [jax.ShapeDtypeStruct((5,), "float32")])
    (value,) = jax.core.eval_jaxpr(program.jaxpr, program.consts, x.numpy())
    assert value.tolist() == function(x).tolist()
