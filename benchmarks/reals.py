"""The walk over the reals against bare loops of the same flint calls, and against mpmath.

    python benchmarks/reals.py [--markdown]

Each class of primitives runs on the same numbers at the same precision in one process,
in turns; the figures are medians. "bare" is the shortest loop of flint calls that does
the same work; "mpmath" is that loop on mpmath's intervals, the other way to a certified result.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flint import acb, arb, arb_mat
from mpmath import iv

from gradcheck_cli.reals.domains.balls import Balls, exact
from gradcheck_cli.reals.domains.balls64 import Balls64
from gradcheck_cli.reals.domains.pairs import narrow, pair
from gradcheck_cli.reals.precision import enclose, working
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import walk

BITS = 256
ROUNDS = 7
RNG = np.random.default_rng(0)
LONG = RNG.uniform(0.1, 2.0, 4000)
SQUARE = RNG.uniform(-1.0, 1.0, (24, 24))


@dataclass(frozen=True)
class Case:
    """One class of primitives: the JAX function, and the same work by hand on lists."""

    name: str
    function: Callable[..., Any]
    argument: Any
    bare: Callable[[list[Any]], Any]
    mpmath: Callable[[list[Any]], Any] | None = None


def _product(rows: list[Any]) -> Any:
    matrix = arb_mat(24, 24, rows)
    return (matrix * matrix).entries()


def _mp_product(rows: list[Any]) -> Any:
    columns = [rows[j::24] for j in range(24)]
    return [
        sum((a * b for a, b in zip(rows[i * 24 : i * 24 + 24], column, strict=True)), iv.mpf(0))
        for i in range(24)
        for column in columns
    ]


def _log_softmax(xs: list[Any]) -> Any:
    """Value and pullback of a log-softmax for the cotangent 1."""
    top = max(xs, key=float)
    shifted = [x - top for x in xs]
    powers = [x.exp() for x in shifted]
    total = sum(powers, arb(0))
    log = total.log()
    return [s - log for s in shifted], [1 - len(xs) * p / total for p in powers]


def _mp_log_softmax(xs: list[Any]) -> Any:
    top = max(xs, key=lambda x: float(x.mid))
    shifted = [x - top for x in xs]
    powers = [iv.exp(x) for x in shifted]
    total = sum(powers, iv.mpf(0))
    log = iv.log(total)
    return [s - log for s in shifted], [1 - len(xs) * p / total for p in powers]


def _pullback(x: Any) -> Any:
    value, pullback = jax.vjp(jax.nn.log_softmax, x)
    return value, pullback(jnp.ones_like(value))


CASES = [
    Case("arithmetic", lambda x: x * x + x, LONG, lambda xs: [x * x + x for x in xs], lambda xs: [x * x + x for x in xs]),
    Case("elementary functions", jnp.exp, LONG, lambda xs: [x.exp() for x in xs], lambda xs: [iv.exp(x) for x in xs]),
    Case("special functions", jax.scipy.special.gammaln, LONG, lambda xs: [x.lgamma() for x in xs], None),
    Case("comparison and choice", lambda x: jnp.maximum(x, 1), LONG, lambda xs: [x if x >= 1 else 1 for x in xs], None),
    Case("reduction", jnp.sum, LONG, lambda xs: sum(xs, arb(0)), lambda xs: sum(xs, iv.mpf(0))),
    Case("product of matrices", lambda x: x @ x, SQUARE, _product, _mp_product),
    Case("Fourier transform", lambda x: jnp.fft.fft(x).real, LONG[:1024], lambda xs: [z.real for z in acb.dft(xs)]),
    Case("log-softmax and its pullback", _pullback, LONG[:1000], _log_softmax, _mp_log_softmax),
]  # fmt: skip


def walked(case: Case) -> Callable[[], Any]:
    """The walk, traced once, as the tool does it."""
    program = build(jax.make_jaxpr(case.function)(case.argument.astype(np.float32)))
    with working(BITS):
        rows = exact(case.argument[None])

    def run() -> Any:
        with working(BITS):
            return walk(program, Balls(1), [rows])

    return run


def by_hand(case: Case) -> Callable[[], Any]:
    numbers = [arb(v) for v in case.argument.reshape(-1).tolist()]

    def run() -> Any:
        with working(BITS):
            return case.bare(numbers)

    return run


def in_mpmath(case: Case) -> Callable[[], Any]:
    iv.prec = BITS
    numbers = [iv.mpf(v) for v in case.argument.reshape(-1).tolist()]

    def run() -> Any:
        return case.mpmath(numbers) if case.mpmath else None

    return run


def timed(runs: list[Callable[[], Any]]) -> list[float]:
    """Median seconds of each, in turns."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, kept in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in seconds]


def in_bulk() -> list[str]:
    """Many points at once: float64 balls first, beside flint alone and plain float64 JAX."""
    count = 400
    lines = []
    for name, function, size in (("softplus and its derivative", jax.nn.softplus, 2000), ("log-softmax", jax.nn.log_softmax, 1000)):  # fmt: skip

        def both(x: Any, function: Any = function) -> Any:
            value, pullback = jax.vjp(function, x)
            return value, pullback(jnp.ones_like(value))

        x = RNG.uniform(-8.0, 8.0, (count, size)).astype(np.float32)
        program = build(jax.make_jaxpr(both)(x[0]))
        with jax.enable_x64(True):
            plain = jax.jit(jax.vmap(both))
            wide = x.astype(np.float64)
            jax.block_until_ready(plain(wide))
            (jax_s,) = timed([lambda wide=wide, plain=plain: jax.block_until_ready(plain(wide))])
        few = x[:20].astype(np.float64)
        rows = [x.astype(np.float64)]
        start = time.perf_counter()
        balls = walk(program, Balls64(count), [pair(rows[0])])
        ours = time.perf_counter() - start
        good = float(np.mean([narrow(b.reshape(-1, 1), 22).mean() for b in balls]))
        start = time.perf_counter()
        enclose(program, [few], goal=40)
        flint_s = (time.perf_counter() - start) * count / len(few)
        lines.append(
            f"{name}: {ours / x.size * 1e9:.0f} ns a number, {good:.1%} certified; "
            f"flint / float64 balls {flint_s / ours:.0f}×; float64 balls / float64 JAX {ours / jax_s:.0f}×"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="a table for the docs")
    markdown = parser.parse_args().markdown
    head = ["class", "walk, µs a number", "walk / bare flint", "mpmath / walk"]
    if markdown:
        print("| " + " | ".join(head) + " |\n|---|---|---|---|")
    else:
        print(f"{head[0]:<30}{head[1]:>18}{head[2]:>20}{head[3]:>16}")
    for case in CASES:
        walk_s, bare_s, mp_s = timed([walked(case), by_hand(case), in_mpmath(case)])
        each = walk_s / case.argument.size * 1e6
        mp = f"{mp_s / walk_s:.0f}×" if case.mpmath else "-"
        row = [case.name, f"{each:.2f}", f"{walk_s / bare_s:.2f}×", mp]
        print("| " + " | ".join(row) + " |" if markdown else f"{row[0]:<30}{row[1]:>18}{row[2]:>20}{row[3]:>16}")  # fmt: skip

    print("\n" + "\n".join(in_bulk()))


if __name__ == "__main__":
    main()
