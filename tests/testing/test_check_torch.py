"""`check_gradient` in a unit test of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli import check_gradient

torch = pytest.importorskip("torch")


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 3 * grad


def naive(x: Any) -> Any:
    return torch.log(1 + torch.exp(x))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Twice, "it is 1.5 times the truth"),
        (Twice.apply, "return 3 * grad"),
        (naive, "write -F.logsigmoid(-x)"),
    ],
)
def test_a_wrong_one_raises_with_the_report(function: Any, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_gradient(function)
    assert said in str(caught.value)
    assert "tests/testing/test_check_torch.py" in str(caught.value)
