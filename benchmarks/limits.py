"""The trials behind `gradcheck_cli/contract/limits.py`: how far right things stay from a limit,
and how far wrong ones lie beyond it.

    python benchmarks/limits.py

Each trial prints the numbers that its row of the table quotes. Seconds, no framework but JAX's numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flint import arb

from gradcheck_cli.measure.ball_truth import Reals
from gradcheck_cli.measure.difference_truth import Differences
from gradcheck_cli.measure.float64_truth import _aside
from gradcheck_cli.measure.integral import ThirdOpinion, by_integral
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.program import build

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
XS = np.array([0.1, 0.3, 0.5, 0.75, 1.0, 1.3, 1.7, 2.0, 3.0])

jax.config.update("jax_enable_x64", True)

SMOOTH: dict[str, Callable[[Any], Any]] = {
    "exp": jnp.exp, "sin": jnp.sin, "tanh": jnp.tanh, "log": jnp.log, "sqrt": jnp.sqrt,
    "cube": lambda x: x**3, "softplus": jax.nn.softplus, "gelu": jax.nn.gelu,
    "sin 8x": lambda x: jnp.sin(8 * x),
}  # fmt: skip


def main() -> None:
    for name, trial in TRIALS.items():
        for line in trial():
            print(f"{name}: {line}")


def margin() -> Iterator[str]:
    """How much of the range of a linear function do random moves of its input reach?"""
    for moves in (8, 32):
        reached = np.ptp(RNG.uniform(-1, 1, (20_000, moves)), axis=1) / 2
        for share in (0.0, 0.25):
            wide = reached * (1 + 2 * share)
            print_ = np.quantile(wide, (0.001, 0.5))
            yield (
                f"{moves} moves, margin {share}: {print_[1]:.0%} of the range in the median, "
                f"{print_[0]:.0%} in the worst of a thousand"
            )


def integral() -> Iterator[str]:
    """Residuals of right rules under their bound, growth of wrong rules' residuals."""
    right, growth = [], []
    for function in SMOOTH.values():
        for x in (0.5, 1.3):
            third = opinion(function, jax.grad(function), x)
            right.append(max(r / c for r, c in pairs(third)))
            for factor in (0.9, 1.01, 1.0001):
                off = opinion(function, lambda x, f=function, k=factor: k * jax.grad(f)(x), x)
                growth.append(off.residuals[-1] / off.residuals[0])
    yield f"right rules: residual up to {max(right):.1e} of the change (bound √eps = 3.5e-4)"
    yield f"rules off by a factor: residual grows by {min(growth):.0f} to {max(growth):.0f}"
    settled = [opinion(stopped, lambda x: 0.5 / jnp.sqrt(x), x) for x in (0.5, 1.3, 2.0)]
    ratios = [t.residuals[-1] / t.residuals[0] for t in settled]
    yield f"right rules of a bisection that stops at 2⁻¹²: grows by {max(ratios):.1f} at most"


def stopped(x: Any) -> Any:
    """√x by twelve bisections of [0, 4]: a step function of x."""
    low, high = jnp.zeros_like(x), jnp.full_like(x, 4.0)
    for _ in range(12):
        middle = (low + high) / 2
        above = middle * middle > x
        low, high = jnp.where(above, low, middle), jnp.where(above, middle, high)
    return (low + high) / 2


def opinion(value: Callable[[Any], Any], rule: Callable[[Any], Any], x: float) -> ThirdOpinion:
    programs = []
    for gradient in (jax.grad(value), rule):
        both = jax.make_jaxpr(lambda x, ct, g=gradient: (value(x), ct * g(x)))(x, 1.0)
        programs.append(Reals(build(both)))
    return by_integral(*programs, [np.array(x)], [np.array(1.0)], 2.0**-23, 0)


def pairs(third: ThirdOpinion) -> list[tuple[float, float]]:
    return [(r, c) for r, c in zip(third.residuals, third.changes, strict=True) if c]


@dataclass(frozen=True)
class Numpy:
    """As much of a subject as differences ask for."""

    function: Callable[[Any], Any]

    def primal_values(self, points: Sequence[Array]) -> list[Array]:
        return [np.asarray(self.function(jnp.asarray(points[0])))]


def differences() -> Iterator[str]:
    """Is a bend of slope s beside 1 told from a smooth function by differences in float64?"""
    wrong = sum(len(kinks(f, XS)) for f in SMOOTH.values())
    yield f"smooth functions: {wrong} of {len(SMOOTH) * len(XS)} points taken for kinks"
    for slope in (0.0, 0.5, 0.8, 0.85, 0.9, 0.99):
        seen = len(kinks(lambda x, s=slope: jnp.where(x > 1, x - 1, s * (x - 1)), np.array([1.0])))
        yield f"slopes {slope} and 1: {'a kink' if seen else 'none'}"


def kinks(function: Callable[[Any], Any], xs: Array) -> Array:
    from gradcheck_cli.measure.ball_truth import Ask
    from gradcheck_cli.measure.states import KINK

    source = Differences(Numpy(function), 53)
    truth = source.evaluate([xs], [np.ones(len(xs))], Ask(40, ties=True))
    return np.flatnonzero(truth.gradient_states[0] == KINK)


def sides() -> Iterator[str]:
    """The change of a gradient over 2⁻²⁸ to either side, beside its size."""

    def change(function: Callable[[Any], Any], xs: Array) -> float:
        before, after = (
            np.asarray(jax.vmap(jax.grad(function))(_aside([xs], s)[0])) for s in (-1, 1)
        )
        return float((np.abs(after - before) / np.maximum(np.abs(after), np.abs(before))).max())

    smooth = {name: change(f, XS) for name, f in SMOOTH.items()}
    steep = {k: change(lambda x, k=k: jnp.tanh(k * (x - 1)), np.array([1.01])) for k in (1e2, 1e3)}
    yield f"smooth functions: up to {max(smooth.values()):.1e}; tanh(1000 (x − 1)) at 1.01: {steep[1e3]:.1e}"
    for slope in (0.01, 0.9, 0.99, 0.999):
        bent = change(lambda x, s=slope: jnp.where(x > 1, x, s * x), np.array([1.0]))
        yield f"slopes {slope} and 1: {bent:.1e}"


def apart() -> Iterator[str]:
    """Iterations in float32 beside the same in float64: those that converge and those that do not."""
    x = RNG.uniform(0.1, 4, 2000)

    def newton(x: Array) -> Array:
        y = np.ones_like(x)
        for _ in range(20):
            y = (y + x / y) / 2
        return y

    def fixed(x: Array) -> Array:
        y = np.zeros_like(x)
        for _ in range(60):
            y = np.cos(y) * x.dtype.type(0.9) + x
        return y

    def chaos(x: Array) -> Array:
        y = x / 4
        for _ in range(100):
            y = 4 * y * (1 - y)
        return y

    for name, loop in (
        ("Newton's √x", newton),
        ("y = 0.9 cos y + x", fixed),
        ("4y(1 − y), 100 times", chaos),
    ):
        rounded = x.astype(np.float32)
        a, b = loop(rounded).astype(np.float64), loop(rounded.astype(np.float64))
        gap = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
        yield f"{name}: apart by {np.median(gap):.1e} in the median, {gap.max():.1e} at most; beyond ½: {(gap > 0.5).mean():.0%}"


def sigmas() -> Iterator[str]:
    """How often is a mean of 48 or 384 draws beyond so many of its own standard errors?"""
    for keys in (48, 384):
        draws = RNG.standard_normal((100_000, keys))
        z = np.abs(draws.mean(axis=1)) / (draws.std(axis=1, ddof=1) / math.sqrt(keys))
        yield f"{keys} keys: beyond 3: {(z > 3).sum()}, beyond 4: {(z > 4).sum()}, beyond 5: {(z > 5).sum()} of 100,000"
        shy = draws[:20_000] + 1.0
        z = np.abs(shy.mean(axis=1)) / (shy.std(axis=1, ddof=1) / math.sqrt(keys))
        yield f"{keys} keys, a bias of one standard deviation: {(z > 5).mean():.1%} seen"


def calls() -> Iterator[str]:
    """Float32 results of one sum in other orders, beside the largest number."""
    worst, alone = 0.0, 0.0
    for size in (16, 256, 4096):
        a, b = (
            RNG.standard_normal((64, size)).astype(np.float32),
            RNG.standard_normal((size, 64)).astype(np.float32),
        )
        order = RNG.permutation(size)
        one, other = a @ b, a[:, order] @ b[order]
        worst = max(worst, float(np.abs(one - other).max() / np.abs(one).max()))
        rows = np.stack([a[i] @ b for i in range(64)])
        alone = max(alone, float((np.abs(rows - one) / np.abs(one)).max()))
    yield f"products in another order: apart by {worst:.1e} of the largest (limit 2⁻¹² = 2.4e-4)"
    xs = RNG.uniform(-10, 10, 4097).astype(np.float32)
    loops = 0.0
    for f in (
        np.exp,
        np.sin,
        np.tanh,
        lambda v: np.log1p(np.exp(v)),
        lambda v: v / (1 + np.exp(-v)),
    ):
        single = np.array([f(xs[i : i + 1])[0] for i in range(len(xs))])
        loops = max(loops, float(np.nanmax(np.abs(f(xs) - single) / np.abs(single))))
    yield f"elementwise, whole and alone: {loops:.1e}; rows of products alone: {alone:.1e} (limit 2⁻¹⁶ = 1.5e-5)"


def nudges() -> Iterator[str]:
    """Two nudges of a removable hole, of powers that tend to zero, and of a logarithm."""
    with working(12288):
        far, near = arb(2) ** -2000, arb(2) ** -4000

        def log2(v: Any) -> float:
            return float(abs(v).log() / arb(2).log()) if v != 0 else -math.inf

        for name, f in {
            "sin x / x": lambda x: x.sin() / x,
            "(1 − cos x) / x²": lambda x: (1 - x.cos()) / (x * x),
            "1 + √x": lambda x: 1 + x.sqrt(),
            "1 + x^0.2": lambda x: 1 + x ** arb("0.2"),
        }.items():
            yield f"{name}: two nudges agree to 2^{log2((f(far) - f(near)) / f(near)):.0f}"
        for power in ("0.5", "0.1", "0.05", "0.04"):
            yield f"x^{power}: shrinks by 2^{log2(near ** arb(power) / far ** arb(power)):.0f}"
        yield f"log x grows by {float(near.log() / far.log()):.2f}"


def float64() -> Iterator[str]:
    """Bits that float64 loses at ordinary points, where truth is known."""
    lost = {}
    for name, function in SMOOTH.items():
        got = [np.asarray(jax.jit(jax.vmap(g))(XS)) for g in (function, jax.grad(function))]
        program = Reals(build(jax.make_jaxpr(lambda x, f=function: (f(x), jax.grad(f)(x)))(1.0)))
        from gradcheck_cli.measure.components import as_floats
        from gradcheck_cli.reals.balls.balls import exact
        from gradcheck_cli.reals.enclose import enclose

        outs = enclose(program.program, [XS], goal=100).outs
        with working(200):
            gaps = [
                as_floats(np.abs((exact(g) - o) / o)).max() for g, o in zip(got, outs, strict=True)
            ]
        lost[name] = 53 + math.log2(max(*gaps, 2.0**-53))
    worst = max(lost, key=lost.__getitem__)
    yield f"values and gradients of {len(SMOOTH)} functions: at most {lost[worst]:.1f} bits lost ({worst})"


def recorded() -> Iterator[str]:
    """Sums of softmax rows as they were recorded, and how near to 1 other rows come by chance."""
    logits = RNG.standard_normal((2000, 10))
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        sums = rows.astype(dtype).astype(np.float64).sum(axis=1)
        yield f"softmax in {np.dtype(dtype).name}: rows sum to 1 within {np.abs(sums - 1).max():.1e}"
    chance = (np.abs(RNG.uniform(0, 0.2, (2000, 10)).sum(axis=1) - 1) < 1e-3).mean()
    yield f"rows of uniform numbers with mean sum 1 do so in {chance:.1%} of cases, two rows in {chance**2:.1e}"


TRIALS: dict[str, Callable[[], Iterator[str]]] = {
    "margin": margin, "integral": integral, "differences": differences, "sides": sides,
    "apart": apart, "sigmas": sigmas, "calls": calls, "nudges": nudges, "float64": float64,
    "recorded": recorded,
}  # fmt: skip

if __name__ == "__main__":
    main()
