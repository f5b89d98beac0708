"""Every float of one function: how long, how much memory, and the same by a loop over points.

    python benchmarks/sweep.py fixtures/seeds/custom_gradient.py:log1pexp

The loop is what one writes by hand: float64 autodiff as the truth, a million random floats in one
compiled batch, without a certificate; its time is scaled to all floats.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time

_LOOPED = 1 << 20
_ALL = 2 * 0x7F800000  # finite float32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    given = parser.parse_args()
    for dtype in ("float16", "bfloat16", "float32"):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as cache:
            command = [
                sys.executable,
                "-m",
                "gradcheck_cli",
                "sweep",
                given.target,
                "--dtype",
                dtype,
            ]
            env = {"CGCHECK_CACHE_DIR": cache, "PATH": "/usr/bin:/bin"}
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"sweep {dtype:<9} {time.perf_counter() - start:6.1f} s, largest process {largest:.0f} MiB")  # fmt: skip
    print(f"float64 autodiff, no certificate: {_by_hand():.1f} s for all float32")


def _by_hand() -> float:
    import jax
    import jax.numpy as jnp
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    bits = np.random.default_rng(0).integers(0, 0x7F800000, _LOOPED, dtype=np.uint32)
    xs = bits.view(np.float32)
    run = jax.jit(jax.vmap(jax.grad(lambda x: jnp.log(1 + jnp.exp(x)))))
    both = [run(xs), run(xs.astype(np.float64))]  # compiled
    start = time.perf_counter()
    both = [np.asarray(run(xs)), np.asarray(run(xs.astype(np.float64)))]
    np.abs(both[0] - both[1]).max()
    return (time.perf_counter() - start) * _ALL / _LOOPED


if __name__ == "__main__":
    main()
