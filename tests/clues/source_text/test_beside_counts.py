"""Lengths of rows, by the places that are compared with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

PADDED = """import torch
from torch import Tensor


class PaddedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, lengths: Tensor):
        POSITIONS
        inside = positions < lengths.unsqueeze(1)
        n = lengths.clamp(min=1).to(x.dtype)
        ctx.save_for_backward(inside, n)
        return (x * inside).sum(1) / n

    @staticmethod
    def backward(ctx, g):
        inside, n = ctx.saved_tensors
        return GIVEN
"""


@pytest.mark.parametrize(
    "positions",
    [
        "positions = torch.arange(x.shape[1], device=x.device)",
        "positions = torch.arange(x.shape[1])[None]",
        "positions = torch.arange(x.size(1)).unsqueeze(0)",
    ],
)
def test_what_places_are_compared_with_is_how_many_there_are(project: Path, positions: str) -> None:
    given = "(g / n)[:, None] * inside, None"
    (project / "a.py").write_text(PADDED.replace("POSITIONS", positions).replace("GIVEN", given))
    gradient = check_json("a.py", cwd=project).gradient("PaddedMean")
    assert gradient["verdict"] == "correct"
    assert {i["path"]: i["dtype"] for i in gradient["inputs"]}["lengths"] == "fixed"


def test_what_has_a_gradient_is_no_length(project: Path) -> None:
    given = "(g / n)[:, None] * inside, -g * inside.sum(1) / n**2"
    source = PADDED.replace("POSITIONS", "positions = torch.arange(x.shape[1])")
    (project / "a.py").write_text(source.replace("GIVEN", given))
    gradient = check_json("a.py", cwd=project).gradient("PaddedMean")
    assert {i["path"]: i["dtype"] for i in gradient["inputs"]}["lengths"] == "float32"
