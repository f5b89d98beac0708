"""The one table of frameworks: their names, packages and backends, and how their custom gradients look.

Names only, nothing imported. `callables` are decorators or functions that make a custom gradient; `bases`
are classes whose subclasses are one. `solutions` are functions with an implicit derivative: what calls one of
them is a custom gradient. `roots` are the top-level modules they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Backend(StrEnum):
    """What Keras runs on, one at a time."""

    JAX = "jax"
    TENSORFLOW = "tensorflow"
    TORCH = "torch"


# A class of JAX's whose instances are primitives with rules; nothing judges them.
UNJUDGED = "VJPHiPrimitive"


@dataclass(frozen=True, slots=True)
class Marks:
    framework: str
    packages: tuple[str, ...]  # installed ones whose versions matter to its numbers
    roots: frozenset[str]
    callables: frozenset[str]
    bases: frozenset[str] = frozenset()
    solutions: frozenset[str] = frozenset()
    backends: tuple[str, ...] = ()  # the frameworks that it runs on, one at a time
    plumbing: tuple[str, ...] = ()  # packages between a user's line and JAX


JAX = Marks(
    framework="jax",
    packages=("jax", "jaxlib"),
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
    bases=frozenset({UNJUDGED}),
    solutions=frozenset({"custom_root", "custom_linear_solve"}),
)

TORCH = Marks(
    framework="torch",
    packages=("torch",),
    roots=frozenset({"torch"}),
    callables=frozenset({"custom_op"}),
    bases=frozenset({"Function", "autograd.Function"}),
    plumbing=("torchax", "torch", "triton", "numpy"),
)

TENSORFLOW = Marks(
    framework="tensorflow",
    packages=("tensorflow",),
    roots=frozenset({"tensorflow"}),
    callables=frozenset({"custom_gradient", "RegisterGradient"}),
    plumbing=("tf2jax", "tensorflow"),
)
KERAS = Marks(
    framework="keras",
    packages=("keras",),
    roots=frozenset({"keras"}),
    callables=frozenset({"custom_gradient"}),
    backends=tuple(Backend),
    plumbing=("keras",),
)

MARKS: tuple[Marks, ...] = (JAX, TORCH, TENSORFLOW, KERAS)
PLUMBING = tuple(package for marks in MARKS for package in marks.plumbing)
NAMES = frozenset(marks.framework for marks in MARKS)
PACKAGES = tuple(package for marks in MARKS for package in marks.packages)
BACKENDS = {marks.framework: marks.backends for marks in MARKS if marks.backends}
# Whose calls can be watched: those of a framework on backends are the backend's.
WATCHED = tuple(sorted(NAMES - set(BACKENDS)))
# The top-level modules that custom gradients come from.
LIBRARIES = frozenset(root for marks in MARKS for root in marks.roots)
# Kinds without a rule of their own: autodiff goes through the function around a solver.
SOLUTIONS = frozenset(name for marks in MARKS for name in marks.solutions)
# What the reals are walked in, and so always imported; a file that imports none of them is taken for its.
DEFAULT = JAX.framework
SOLUTIONS = frozenset(name for marks in MARKS for name in marks.solutions)
# In the order in which an object is asked about: a plain function of any of them is one of the default's, too.
ASKED = (*(m.framework for m in MARKS if m.framework not in {*BACKENDS, DEFAULT}), DEFAULT)
