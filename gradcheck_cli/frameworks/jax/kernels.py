"""Pallas kernels as plain JAX: a call is its own interpretation, a loop over its grid of known length.

Where there is no GPU or TPU a kernel cannot run at all, and nowhere does autodiff go through one in reverse.
Its interpretation can be run, traced and differentiated like any program. Only what is loaded is changed: who
does not import Pallas pays nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import jax
from jax import lax

from gradcheck_cli.frameworks.jax.private_api import pallas_modules
from gradcheck_cli.frameworks.shared.equations import inner_jaxprs
from gradcheck_cli.subject.results import Cut, Kernel

# The call of an interpretation says in its name how the kernel's arrays are cut, wherever it is traced and kept.
_NAME = "cgcheck_kernel_"

P = ParamSpec("P")
R = TypeVar("R")


def interpret_kernels() -> None:
    """From now on each call of a kernel is interpreted; nothing if Pallas has not been imported."""
    loaded = pallas_modules()
    if loaded is None or isinstance(loaded.primitive.bind, _Interpreted):
        return
    loaded.primitive.bind = _Interpreted(loaded.primitive.bind, loaded.interpreter)


def with_kernels(search: Callable[P, R]) -> Callable[P, R]:
    """A search through a module that is loaded, whose kernels are interpreted from then on."""

    @functools.wraps(search)
    def searched(*args: P.args, **kwargs: P.kwargs) -> R:
        interpret_kernels()
        return search(*args, **kwargs)

    return searched


def kernels_in(jaxpr: Any) -> Iterator[Kernel]:
    """The kernels of which a traced program holds the interpretation, by the names of its calls."""
    for eqn in jaxpr.eqns:
        name = str(eqn.params.get("name", ""))
        if name.startswith(_NAME):
            programs, *cuts = name.removeprefix(_NAME).split("_")
            pairs = (cut.split("x") for cut in cuts)
            yield Kernel(tuple(Cut(int(size), int(block)) for size, block in pairs), int(programs))
        for inner in inner_jaxprs(eqn):
            yield from kernels_in(inner)


class _Interpreted:
    """What calls a kernel, in place of the primitive's own way."""

    def __init__(self, own: Callable[..., Any], interpreter: Any) -> None:
        self._own, self._interpreter = own, interpreter

    def __call__(self, *args: Any, **params: Any) -> Any:
        mapping = params["grid_mapping"]
        if mapping.num_dynamic_grid_bounds:
            return self._own(*args, **params)
        given = {k: v for k, v in params.items() if k not in ("interpret", "backend")}
        steps = math.prod(mapping.grid) if mapping.grid else 1

        def interpreted(*args: Any) -> Any:
            with _counted(self._interpreter, steps):
                return self._interpreter.pallas_call_hlo_interpret(*args, **given)

        cuts = [f"{c.size}x{c.block}" for c in _cuts(mapping)]
        interpreted.__name__ = _NAME + "_".join(["1" if mapping.grid else "0", *cuts])
        return jax.jit(interpreted)(*args)


def _cuts(mapping: Any) -> Iterator[Cut]:
    """How the kernel's arrays are cut into blocks."""
    for block in mapping.block_mappings:
        for size, part in zip(block.array_aval.shape, block.block_shape, strict=False):
            length = getattr(part, "block_size", part)
            if isinstance(length, int):
                yield Cut(size, length)


@contextmanager
def _counted(interpreter: Any, steps: int) -> Iterator[None]:
    """While active, the interpreter's loop over the grid has a known length: reverse mode goes through it."""
    before = interpreter.loops
    interpreter.loops = _Loops(before, steps)
    try:
        yield
    finally:
        interpreter.loops = before


class _Loops:
    """JAX's loops, of which the outermost is one of so many steps."""

    def __init__(self, own: Any, steps: int) -> None:
        self._own, self._steps = own, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def while_loop(self, _: Any, body: Callable[[Any], Any], start: Any) -> Any:
        return lax.fori_loop(0, self._steps, lambda _, state: body(state), start)
