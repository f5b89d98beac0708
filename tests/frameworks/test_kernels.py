"""Pallas kernels are interpreted: run, differentiated and traced where no GPU is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from gradcheck_cli.frameworks.jax.kernels import interpret_kernels, kernels_in
from gradcheck_cli.infer.richer import over_blocks
from gradcheck_cli.inputs.signature import Hints, Leaf, Signature
from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.subject.results import Cut

SEVEN = np.linspace(-2, 3, 7, dtype=np.float32)


@pytest.fixture(autouse=True)
def _interpreted() -> None:
    interpret_kernels()


def silu(x: Any, grid: Any = None) -> Any:
    """By blocks of four, the last of which is ragged."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        o_ref[...] = x * jax.nn.sigmoid(x)

    spec = pl.BlockSpec((4,), lambda i: (i,))
    steps = pl.cdiv(x.shape[0], 4) if grid is None else grid
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, grid=(steps,), in_specs=[spec], out_specs=spec, out_shape=out)(x)


def test_a_kernel_runs_and_is_differentiated_in_reverse() -> None:
    np.testing.assert_allclose(silu(SEVEN), jax.nn.silu(SEVEN), rtol=1e-6)
    slope = jax.grad(lambda x: silu(x).sum())(SEVEN)
    np.testing.assert_allclose(slope, jax.grad(lambda x: jax.nn.silu(x).sum())(SEVEN), rtol=1e-5)


def test_its_trace_has_a_counted_loop_and_no_kernel() -> None:
    names = program_of(jax.make_jaxpr(jax.jit(silu))(SEVEN)).primitives()
    assert "scan" in names
    assert not names & {"while", "pallas_call"}


def test_how_its_arrays_are_cut_is_known_also_of_what_is_traced_once() -> None:
    compiled = jax.jit(lambda x: 2 * silu(x))
    for function in (compiled, lambda x: compiled(x) + 1, jax.grad(lambda x: compiled(x).sum())):
        cuts = {kernel.cuts for kernel in kernels_in(jax.make_jaxpr(function)(SEVEN).jaxpr)}
        assert cuts == {(Cut(7, 4), Cut(7, 4))}
    assert not list(kernels_in(jax.make_jaxpr(jnp.sin)(SEVEN).jaxpr))


def test_a_grid_that_is_not_known_is_left_alone() -> None:
    left = jax.make_jaxpr(silu)(SEVEN, 2)
    assert not list(kernels_in(left.jaxpr))
    assert "pallas_call" in program_of(left).primitives()


def test_an_axis_of_one_block_becomes_one_of_three_or_of_two() -> None:
    signature = Signature((("x", Leaf("x", (4,), "test")),))
    sizes = [s.leaves[0].shape for s in over_blocks(signature, Hints({}, {}, []), Cut(4, 4))]
    assert sizes == [(9,), (8,)]


def test_so_does_an_axis_of_which_a_kernel_takes_a_part() -> None:
    signature = Signature((("x", Leaf("x", (5, 7), "test")),))
    sizes = [s.leaves[0].shape for s in over_blocks(signature, Hints({}, {}, []), Cut(3, 4))]
    assert sizes == [(5, 18), (5, 16)]
    assert not list(over_blocks(signature, Hints({}, {}, []), Cut(4, 4)))


def test_beside_long_axes_the_others_are_short() -> None:
    signature = Signature((("x", Leaf("x", (5, 7), "test")),))
    sizes = [s.leaves[0].shape for s in over_blocks(signature, Hints({}, {}, []), Cut(7, 64))]
    assert sizes == [(2, 129), (5, 129), (2, 128), (5, 128)]
