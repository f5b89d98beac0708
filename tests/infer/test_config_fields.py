"""Fields of objects that are settings: a word or a flag stays what it is; a count is tried at several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gradcheck_cli.clues.classes import setting_of
from tests.conftest import check_json

CONFIG = '''from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Config:
    scale: float = 2.0
    reduction: str = "mean"


@jax.custom_vjp
def loss(x, cfg: Config):
    """Of x (n, d)."""
    each = cfg.scale * x * x
    return each.mean() if cfg.reduction == "mean" else each.sum()


def fwd(x, cfg):
    return loss(x, cfg), (x, cfg)


def bwd(kept, g):
    x, cfg = kept
    count = SIZE if cfg.reduction == "mean" else 1
    return g * 2 * cfg.scale * x / count, None


loss.defvjp(fwd, bwd)
jax.tree_util.register_dataclass(Config, [], ["scale", "reduction"])
'''


@pytest.mark.parametrize(("size", "verdict"), [("x.size", "correct"), ("x.shape[0]", "wrong")])
def test_a_word_of_a_configuration_is_no_array(project: Path, size: str, verdict: str) -> None:
    (project / "a.py").write_text(CONFIG.replace("SIZE", size))
    assert check_json("a.py", cwd=project).gradient("loss")["verdict"] == verdict


@dataclass
class Mixed:
    weight: Any
    mode: str = "same"
    rate: float = 0.5
    steps: int = 3
    mask: Any = 0


class Row(NamedTuple):
    weight: Any
    causal: bool = True


def test_what_has_a_word_or_a_flag_for_its_default_is_a_setting() -> None:
    found = {name: setting_of(Mixed, name) for name in ("weight", "mode", "rate", "steps", "mask")}
    assert found == {"weight": None, "mode": "same", "rate": None, "steps": None, "mask": None}
    assert [setting_of(Row, name) for name in ("weight", "causal")] == [None, True]
