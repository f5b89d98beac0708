"""How each framework's custom gradients look in source: names only, nothing imported.

`callables` are decorators or functions that make a custom gradient; `bases` are
classes whose subclasses are one. `roots` are the top-level modules they come from.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    framework: str
    roots: frozenset[str]
    callables: frozenset[str]
    bases: frozenset[str] = frozenset()
    backends: tuple[str, ...] = ()  # the frameworks that it runs on, one at a time


JAX = Marks(
    framework="jax",
    roots=frozenset({"jax", "equinox", "flax"}),
    callables=frozenset(
        {
            "custom_vjp",
            "custom_jvp",
            "custom_gradient",
            "filter_custom_vjp",
            "filter_custom_jvp",
        }
    ),
)

TORCH = Marks(
    framework="torch",
    roots=frozenset({"torch"}),
    callables=frozenset({"custom_op"}),
    bases=frozenset({"Function", "autograd.Function"}),
)

TENSORFLOW = Marks(
    framework="tensorflow",
    roots=frozenset({"tensorflow"}),
    callables=frozenset({"custom_gradient", "RegisterGradient"}),
)
KERAS = Marks(
    framework="keras",
    roots=frozenset({"keras"}),
    callables=frozenset({"custom_gradient"}),
    backends=("jax", "tensorflow", "torch"),
)

MARKS: tuple[Marks, ...] = (JAX, TORCH, TENSORFLOW, KERAS)
NAMES = frozenset(marks.framework for marks in MARKS)
BACKENDS = {marks.framework: marks.backends for marks in MARKS if marks.backends}
# Whose calls can be watched: those of a framework on backends are the backend's.
WATCHED = tuple(sorted(NAMES - set(BACKENDS)))
