"""A window that is an axis of one array, and slides along an axis of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

PATCHES = '''from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Patch(NamedTuple):
    kernel: jax.Array  # (window, width)
    bias: jax.Array  # (width,)


def places(length, window, stride):
    return np.arange(0, length - window + 1, stride)[:, None] + np.arange(window)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def embed(patch: Patch, series, stride: int):
    """series (batch, length): all that the window covers, and the next a stride on."""
    table = places(series.shape[1], patch.kernel.shape[0], stride)
    return series[:, table] @ patch.kernel + patch.bias


def fwd(patch, series, stride):
    return embed(patch, series, stride), (patch, series)


def bwd(stride, kept, g):
    patch, series = kept
    table = places(series.shape[1], patch.kernel.shape[0], stride)
    back = jnp.einsum("bpd,wd->bpw", g, patch.kernel)
    d_kernel = jnp.einsum("bpw,bpd->wd", series[:, table], g)
    return Patch(d_kernel, g.SUMMED((0, 1))), jnp.zeros_like(series).at[:, table].add(back)


embed.defvjp(fwd, bwd)
'''


@pytest.mark.parametrize(("summed", "verdict"), [("sum", "correct"), ("mean", "wrong")])
def test_the_array_under_the_window_may_be_the_second_one(
    project: Path, summed: str, verdict: str
) -> None:
    (project / "a.py").write_text(PATCHES.replace("SUMMED", summed))
    gradient = check_json("a.py", cwd=project).gradient("embed")
    assert gradient["verdict"] == verdict
    shapes = {item["path"]: item["shape"] for item in gradient["inputs"]}
    assert shapes["patch.kernel"][0] <= shapes["series"][1]
