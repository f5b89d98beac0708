"""The same rules at the same points: cgcheck, everything included, beside jax.test_util.check_grads.

cgcheck's time is that of the whole process (start, import, tracing, compiling, truth, report);
check_grads' time is that of its calls alone, JAX imported and warm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import stress_values

POINTS = 1000
MORE = 17000
SAMPLE = 100  # check_grads is timed on so many of them

SOURCE = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def right(x):
    return jax.nn.softplus(x)


right.defvjp(lambda x: (jax.nn.softplus(x), x), lambda x, ct: (ct * jax.nn.sigmoid(x),))


@jax.custom_vjp
def zero(x):
    return jax.nn.softplus(x)


zero.defvjp(lambda x: (jax.nn.softplus(x), x), lambda x, ct: (ct * 0.0,))


@jax.custom_vjp
def overflows(x):
    return jax.nn.softplus(x)


overflows.defvjp(
    lambda x: (jax.nn.softplus(x), x), lambda x, ct: (ct * jnp.exp(x) / (1 + jnp.exp(x)),)
)


@jax.custom_vjp
def clipped(x):
    return jax.nn.softplus(x)


clipped.defvjp(
    lambda x: (jax.nn.softplus(x), x),
    lambda x, ct: (jnp.clip(ct, -1, 1) * jax.nn.sigmoid(x),),
)
"""

TRUTH = {"right": "correct", "zero": "wrong", "overflows": "unstable", "clipped": "wrong"}


def main() -> None:
    fmt = format_of("float32")
    grid = stress_values(fmt, list(np.linspace(-120, 120, 700)), 1e9)
    points = np.array((grid * 2)[:POINTS], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rules.py"
        file.write_text(SOURCE)
        space: dict[str, object] = {}
        exec(compile(SOURCE, str(file), "exec"), space)
        print(
            f"{'rule':10}{'truth':>10}{'cgcheck':>10}{'whole ms':>10}{'further':>9}"
            f"{'check_grads':>19}{'ms':>8}{'times':>7}{'further':>9}"
        )
        for name, truth in TRUTH.items():
            run_cgcheck(file, name, POINTS)  # what XLA compiles is kept from then on
            verdict, few = run_cgcheck(file, name, POINTS)
            _, many = run_cgcheck(file, name, MORE)
            whole, further = few / POINTS, (many - few) / (MORE - POINTS)
            passed, failed, theirs = run_check_grads(space[name], points[:: POINTS // SAMPLE])
            said = f"{passed} pass, {failed} fail"
            print(
                f"{name:10}{truth:>10}{verdict:>10}{whole:10.3f}{further:9.3f}"
                f"{said:>19}{theirs:8.3f}{theirs / whole:7.1f}{theirs / further:9.1f}"
            )
    print(
        f"\nMilliseconds a point. whole: {POINTS} points, a second process, its start and JAX's import included;\n"
        f"further: each point beyond, up to {MORE}. check_grads (order 1, reverse): warm, on {SAMPLE}\n"
        "of the points. times: check_grads' time over cgcheck's."
    )
    print(f"jax {jax.__version__}, float32, {jnp.zeros(()).device.platform}")


def run_cgcheck(file: Path, name: str, points: int) -> tuple[str, float]:
    command = [sys.executable, "-m", "gradcheck_cli", f"{file}:{name}", "--points", str(points), "--no-cache", "--output-format", "json"]  # fmt: skip
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    (gradient,) = json.loads(done.stdout)["gradients"]
    return gradient["verdict"], 1000 * took


def run_check_grads(function: object, points: np.ndarray) -> tuple[int, int, float]:
    # Warm, nothing judged: the tolerances are so wide that no rule fails here.
    check_grads(function, (jnp.float32(0.5),), order=1, modes=["rev"], atol=1e9, rtol=1e9)
    passed = failed = 0
    start = time.perf_counter()
    for x in points:
        try:
            check_grads(function, (jnp.float32(x),), order=1, modes=["rev"])
            passed += 1
        except AssertionError:
            failed += 1
    return passed, failed, 1000 * (time.perf_counter() - start) / len(points)


if __name__ == "__main__":
    main()
