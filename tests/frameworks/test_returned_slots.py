"""Gradients that torch sums without a word are of other shapes than the call's arguments."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.needs("torch")


def test_a_gradient_with_more_axes_than_any_argument_is_told() -> None:
    import torch

    from gradcheck_cli.frameworks.torch.returned_slots import overgrown

    x, w = torch.ones(5, 3), torch.ones(3)
    message = overgrown(["x", "w"], [x, w], [torch.ones(5, 3), torch.ones(2, 5, 3)])
    assert message == (
        "the gradient of w has the shape [2, 5, 3], its argument [3]: torch sums it without a word"
    )
    assert overgrown(["x", "w"], [x, w], [torch.ones(5, 3), torch.ones(5, 3)]) is None
