"""On which devices JAX runs: what is measured, all else, and one call that is spread over two.

On the CPU the two are simulated: a worker's environment asks for them before JAX starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradcheck_cli.subject.device import measures_on_gpu, measuring

Array = np.ndarray[Any, Any]

_AXIS = "rows"


def accelerator() -> Any:
    """The device where floats are measured; the CPU if there is no other."""
    return jax.devices()[0]


@contextmanager
def floats_on_device() -> Iterator[None]:
    """While active, what is compiled and made is on the device that was asked for."""
    with measuring():
        if not measures_on_gpu():
            yield
            return
        with jax.default_device(accelerator()):
            yield


def two() -> list[Any] | None:
    """The first two devices of the kind where floats are measured; None if there is only one."""
    devices = jax.devices()
    return devices[:2] if len(devices) > 1 else None


def spread(function: Callable[..., Any], avals: Sequence[Any]) -> Callable[..., list[Array]]:
    """The function mapped over two rows, one a device; compiled once, it gives the first row's numbers."""
    mesh = Mesh(np.array(two()), (_AXIS,))
    rows = [jax.ShapeDtypeStruct((2, *a.shape), a.dtype) for a in avals]
    sharding = NamedSharding(mesh, PartitionSpec(_AXIS))
    compiled = jax.jit(jax.vmap(function), in_shardings=sharding).lower(*rows).compile()

    def run(*args: Any) -> list[Array]:
        both = [jax.device_put(jnp.stack([a, a]), sharding) for a in args]
        return [np.asarray(out, np.float64)[0] for out in compiled(*both)]

    return run
