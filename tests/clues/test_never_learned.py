"""Arguments that the project's calls take from buffers, or from behind a `detach`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradcheck_cli.clues.call_sites import clues
from gradcheck_cli.inputs.signature import Parameter

MODEL = """
    import torch

    class Affine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mean, scale):
            return (x - mean) * scale

    class Layer(torch.nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.register_buffer("mean", torch.zeros(dim))
            for side in ("left", "right"):
                self.register_buffer(f"shift_{side}", torch.zeros(dim))
            self.register_buffer("table", torch.ones(9, dim), persistent=False)
            self.scale = torch.nn.Parameter(torch.ones(dim))

        def forward(self, x):
            return Affine.apply({})
    """


@pytest.mark.parametrize(
    ("given", "fixed"),
    [
        ("x, self.mean, self.scale", {"mean"}),
        ("x, self.table[: len(x)].to(x.dtype), self.scale", {"mean"}),
        ("x, x.mean().detach(), scale=self.mean", {"mean", "scale"}),
        ("x, self.scale, self.unknown", set()),
        ("x, self.shift_left, self.scale", {"mean"}),
        ("x.detach(), self.mean + self.scale, self.scale", {"x"}),
    ],
)
def test_what_nobody_learns(tmp_path: Path, given: str, fixed: set[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(textwrap.dedent(MODEL).replace("{}", given), encoding="utf-8")
    parameters = [Parameter(name, i, True, False) for i, name in enumerate(("x", "mean", "scale"))]
    found = clues(path, tmp_path, ["Affine.apply", "Affine"], parameters)
    assert {name for name, clue in found.items() if clue.constant} == fixed


def test_one_call_that_learns_it_is_enough(tmp_path: Path) -> None:
    text = textwrap.dedent(MODEL).replace("{}", "x, self.mean, self.scale")
    text += "\n\ndef other(x, w):\n    return Affine.apply(x, w, torch.ones(3))\n"
    path = tmp_path / "model.py"
    path.write_text(text, encoding="utf-8")
    parameters = [Parameter(name, i, True, False) for i, name in enumerate(("x", "mean", "scale"))]
    found = clues(path, tmp_path, ["Affine.apply", "Affine"], parameters)
    assert not any(clue.constant for clue in found.values())


def test_a_local_name_is_what_it_was_made_of(tmp_path: Path) -> None:
    text = textwrap.dedent(MODEL).replace(
        "return Affine.apply({})",
        "mean = self.mean.to(x.dtype)\n        return Affine.apply(x, mean, self.scale)",
    )
    path = tmp_path / "model.py"
    path.write_text(text, encoding="utf-8")
    parameters = [Parameter(name, i, True, False) for i, name in enumerate(("x", "mean", "scale"))]
    found = clues(path, tmp_path, ["Affine.apply", "Affine"], parameters)
    assert {name for name, clue in found.items() if clue.constant} == {"mean"}
