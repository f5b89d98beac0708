"""What a rule has a gradient for is learned, whatever its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

LABELLED = '''import torch


def make_score(reduction="mean"):
    """lower: (B, S, H) bounds of the members; y: (B, H) what they share."""

    class Score(torch.autograd.Function):
        @staticmethod
        def forward(ctx, lower, y):
            gap = lower - y.unsqueeze(1)
            ctx.save_for_backward(gap)
            return gap.square().mean() if reduction == "mean" else gap.square().sum()

        @staticmethod
        def backward(ctx, g):
            (gap,) = ctx.saved_tensors
            slope = 2 * g * gap / (gap.numel() if reduction == "mean" else 1)
            return slope, -slope.SUMMED(dim=1)

    return Score.apply
'''


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("summed", "verdict"), [("sum", "correct"), ("mean", "wrong")])
def test_what_has_a_gradient_is_no_table_of_labels(
    project: Path, summed: str, verdict: str
) -> None:
    """It is called `y`, and its text gives it a shape and no type."""
    (project / "a.py").write_text(LABELLED.replace("SUMMED", summed))
    (gradient,) = check_json("a.py", cwd=project).report["gradients"]
    assert gradient["verdict"] == verdict
