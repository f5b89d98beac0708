"""JAX's own public functions: value and pullback have a meaning over the reals, or a reason why not."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import Program, build
from gradcheck_cli.reals.rules.unreal import BITS, DRAWS, OUTSIDE, REASONS
from gradcheck_cli.reals.walk import uncovered

MODULES = ["jax.nn", "jax.numpy", "jax.numpy.fft", "jax.numpy.linalg", "jax.scipy.linalg", "jax.scipy.special", "jax.scipy.stats", "jax.scipy.signal", "jax.lax.linalg", "optax.losses"]  # fmt: skip
# Distributions are modules of functions.
SUBMODULES = [f"jax.scipy.stats.{name}" for name in ("beta", "cauchy", "chi2", "expon", "gamma", "gennorm", "laplace", "logistic", "norm", "pareto", "t", "truncnorm", "uniform", "vonmises")]  # fmt: skip

RNG = np.random.default_rng(7)
SQUARE = 0.2 + 0.5 * RNG.random((3, 3)) + np.eye(3)
SYMMETRIC = SQUARE @ SQUARE.T
# What is tried, from the simplest: scalars, vectors, matrices, alike and mixed.
ATTEMPTS: list[tuple[Any, ...]] = [
    tuple(np.float64(v) for v in values)
    for values in ([0.3], [0.3, 0.4], [0.3, 0.4, 0.5], [0.3, 0.2, 0.5, 0.6])
]
ATTEMPTS += [(np.array([0.2, 0.5, 0.7]),) * n for n in (1, 2)]
ATTEMPTS += [(np.array([0.2, 0.5, 0.7]), np.int32(1)), (SYMMETRIC, np.array([0, 2, 1]))]
ATTEMPTS += [(SYMMETRIC,), (SYMMETRIC, SQUARE), (SYMMETRIC, SQUARE[0]), (SQUARE[0], SYMMETRIC)]
CLOSED = {BITS, DRAWS, OUTSIDE}
MOST_EXCEPTIONS = 0.02


def public(module: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions that the module offers, each once."""
    loaded = importlib.import_module(module)
    for name in sorted(vars(loaded)):
        thing = getattr(loaded, name)
        if not name.startswith("_") and callable(thing) and not inspect.isclass(thing):
            yield f"{module}.{name}", thing


def traced(function: Callable[..., Any]) -> tuple[Program, tuple[Any, ...]] | None:
    """Value and pullback at the first arguments that the function takes and differentiates."""

    for args in ATTEMPTS:
        if not takes(function, len(args)):
            continue
        floats = [np.asarray(a, np.float32) for a in args if a.dtype.kind == "f"]
        labels = [a for a in args if a.dtype.kind == "i"]

        def both(*given: Any, labels: Any = labels) -> Any:
            values, pullback = jax.vjp(lambda *xs: parts(function(*xs, *labels)), *given)
            return values, pullback(jax.tree.map(jnp.ones_like, values))

        try:
            closed = jax.make_jaxpr(both)(*floats)
        except Exception:  # not these arguments
            continue
        program = build(closed)
        kinds = [aval.kind == "f" for aval in program.out_avals]
        if kinds and all(kinds) and len(kinds) > len(floats):
            return program, tuple(a for a in args if a.dtype.kind == "f")
    return None


def takes(function: Callable[..., Any], count: int) -> bool:
    """Can it be called with so many arguments, as far as its signature says?"""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it shows no signature
        return True
    return True


@pytest.fixture
def plain_tracebacks() -> Iterator[None]:
    """What JAX raises, as it is: to clean thousands of tracebacks takes half a minute."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)


def parts(out: Any) -> list[Any]:
    """Float outputs; complex ones as their two parts."""
    found: list[Any] = []
    for leaf in jax.tree.leaves(out):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            found += [leaf.real, leaf.imag]
        elif jnp.issubdtype(leaf.dtype, jnp.floating):
            found.append(leaf)
    return found


@pytest.mark.slow
@pytest.mark.needs("optax")
def test_public_functions_have_a_meaning_or_a_reason() -> None:
    seen = 0
    exceptions: dict[str, set[str]] = {}
    failures: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in [*MODULES, *SUBMODULES]:
            for name, function in public(module):
                found = traced(function)
                if found is None:
                    continue
                seen += 1
                program, args = found
                lacking = set(uncovered(program))
                if lacking:
                    exceptions[name] = {REASONS.get(p, p) for p in lacking}
                    continue
                try:
                    enclose(program, [np.asarray(a)[None] for a in args], goal=40, most_bits=256)
                except Exception as error:
                    failures[name] = f"{type(error).__name__}: {error}"
    assert failures == {}
    assert {reason for reasons in exceptions.values() for reason in reasons} <= CLOSED, exceptions
    assert seen > 300
    assert len(exceptions) <= MOST_EXCEPTIONS * seen, exceptions
