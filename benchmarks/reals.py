"""The walk over the reals against bare loops of the same flint calls, and against mpmath.

    python benchmarks/reals.py [--markdown]

Each class of primitives runs on the same numbers at the same precision in one process,
in turns; the figures are medians. "bare" is the shortest loop of flint calls that does
the same work; "mpmath" is that loop on mpmath's intervals, the other way to a certified result.
"""

from __future__ import annotations

import argparse
import gc
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

from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.float64.certify import beside, certify, compiled
from gradcheck_cli.reals.float64.pairs import Pair
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import walk

BITS = 256
ROUNDS = 7
TURN = 0.02  # seconds
RNG = np.random.default_rng(0)
LONG = RNG.uniform(0.1, 2.0, 4000)
SQUARE = RNG.uniform(-1.0, 1.0, (24, 24))
OTHER = RNG.uniform(-1.0, 1.0, (24, 24)).astype(np.float32)
OTHER_BALLS = [arb(v) for v in OTHER.reshape(-1).tolist()]
OTHER_INTERVALS = [iv.mpf(v) for v in OTHER.reshape(-1).tolist()]


@dataclass(frozen=True)
class Case:
    """One class of primitives: the JAX function, and the same work by hand on lists."""

    name: str
    function: Callable[..., Any]
    argument: Any
    bare: Callable[[list[Any]], Any]
    mpmath: Callable[[list[Any]], Any] | None = None


def _product(rows: list[Any]) -> Any:
    return (arb_mat(24, 24, rows) * arb_mat(24, 24, OTHER_BALLS)).entries()


def _mp_product(rows: list[Any]) -> Any:
    columns = [OTHER_INTERVALS[j::24] for j in range(24)]
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
    Case("product of matrices", lambda x: x @ OTHER, SQUARE, _product, _mp_product),
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
    """Median seconds of each, in turns, repeated until a turn is long enough; without the collector."""
    repeats = []
    for run in runs:
        start = time.perf_counter()
        run()
        repeats.append(max(1, int(TURN / (time.perf_counter() - start + 1e-9))))
    seconds: list[list[float]] = [[] for _ in runs]
    gc.disable()
    for _ in range(ROUNDS):
        for run, times, kept in zip(runs, repeats, seconds, strict=True):
            start = time.perf_counter()
            for _ in range(times):
                run()
            kept.append((time.perf_counter() - start) / times)
            gc.collect()
    gc.enable()
    return [statistics.median(kept) for kept in seconds]


def _layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


WEIGHTS = RNG.normal(size=(64, 64)).astype(np.float32) / 8
BULK = [
    ("log(1 + exp(x))", lambda x: jnp.log(1 + jnp.exp(x)), (), 2**20),
    ("softplus", jax.nn.softplus, (), 2**20),
    ("gelu", jax.nn.gelu, (), 2**20),
    ("log-softmax", jax.nn.log_softmax, (1000,), 2**10),
    ("logsumexp", jax.scipy.special.logsumexp, (100,), 2**13),
    ("layer norm", _layer_norm, (16, 64), 2**10),
    ("largest of a row", lambda x: x.max(-1), (10, 100), 2**10),
    ("two dense layers", lambda x: jnp.tanh(jnp.tanh(x @ WEIGHTS) @ WEIGHTS), (64,), 2**13),
]


def in_bulk(bits: int = 26) -> list[list[str]]:
    """Value and pullback of many points: float64 pairs beside plain float64 JAX, and flint alone."""
    return [_bulk(*case, bits) for case in BULK]


def _bulk(name: str, function: Callable[..., Any], shape: tuple[int, ...], count: int, bits: int) -> list[str]:  # fmt: skip
    def both(x: Any) -> Any:
        value, pullback = jax.vjp(function, x)
        return value, pullback(jnp.cos(jnp.arange(value.size)).reshape(value.shape))[0]

    x = RNG.uniform(-4.0, 4.0, (count, *shape)).astype(np.float32)
    program = build(jax.make_jaxpr(both)(x[0]))
    found = certify(program, [x])
    lines = [(m.reshape(count, -1), r.reshape(count, -1)) for m, r in zip(found.mids, found.rads, strict=True)]  # fmt: skip
    numbers = [beside(mid, rad, bits) & found.sure[:, None] for mid, rad in lines]
    good = np.concatenate(numbers, axis=1).mean()
    with jax.enable_x64(True):
        wide = jnp.asarray(x.astype(np.float64))
        plain = jax.jit(jax.vmap(both)).lower(wide).compile()
        ours = compiled(program, count)
        given = Pair(wide, jnp.zeros_like(wide))
        ours_s, plain_s = timed([lambda: jax.block_until_ready(ours(given)), lambda: jax.block_until_ready(plain(wide))])  # fmt: skip
    few = x[: max(1, 2000 // max(1, int(np.prod(shape))))].astype(np.float64)
    with working(128):
        rows = [exact(few)]
        start = time.perf_counter()
        walk(program, Balls(len(few)), rows)
        flint_s = (time.perf_counter() - start) * count / len(few)
    each = ours_s / x.size * 1e9
    return [
        name,
        f"{each:.1f}",
        f"{good:.2%}",
        f"{ours_s / plain_s:.1f}×",
        f"{flint_s / ours_s:.0f}×",
    ]


def table(head: list[str], rows: list[list[str]], *, markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows if markdown else [head, *rows]:
        print("| " + " | ".join(row) + " |" if markdown else "".join(f"{cell:<30}" for cell in row))
    print()


def walked_rows() -> list[list[str]]:
    rows = []
    for case in CASES:
        walk_s, bare_s, mp_s = timed([walked(case), by_hand(case), in_mpmath(case)])
        mp = f"{mp_s / walk_s:.0f}×" if case.mpmath else "-"
        rows.append([case.name, f"{walk_s / case.argument.size * 1e6:.2f}", f"{walk_s / bare_s:.2f}×", mp])  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="tables for the docs")
    markdown = parser.parse_args().markdown
    head = ["class", "walk, µs a number", "walk / bare flint", "mpmath / walk"]
    table(head, walked_rows(), markdown=markdown)
    head = [
        "value and pullback",
        "ns a number",
        "certified",
        "pairs / float64 JAX",
        "flint / pairs",
    ]
    table(head, in_bulk(), markdown=markdown)


if __name__ == "__main__":
    main()
