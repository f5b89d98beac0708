"""What every framework needs once it has a jaxpr: pullbacks, float64 for a while, brief errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.reals.facts import OPEN_LOOPS, named
from gradcheck_cli.reals.inner_jaxprs import Unexpanded
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.refusals import Rejected, progress

# A program of these alone runs on all points as one array.
POINTWISE = named(lambda facts: facts.pointwise or facts.spreads)


def has_open_loop(primitives: frozenset[str]) -> bool:
    """Is one of these primitives a loop that goes on until its values say so?"""
    return bool(primitives & OPEN_LOOPS)


class Untraceable(CgcheckError):
    """A function has no program over the reals; the message says why."""


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """While active, JAX has float64 if this dtype needs it; elsewhere the user's program stays what it is.

    The setting is the process's own, not the thread's: callbacks run in other threads.
    """
    before = jax.config.read("jax_enable_x64")
    if dtype != "float64" or before:
        yield
        return
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


_NO_CONCRETE = re.compile(
    r"^Abstract tracer value encountered where concrete value is expected: (?:traced array with shape \S+ (?=The ))?"
)
_AT_NODE = re.compile(r"^Node: .*\n\s*(?P<said>\S.*)$", re.MULTILINE)


def refused(error: BaseException, gradient: CustomGradient) -> Rejected:
    """What the function raises at arguments that it does not take."""
    return Rejected(brief(error), str(error), progress(error, gradient.place.path))


def brief(error: BaseException) -> str:
    """The first paragraph of an error, on one line, without terminal colours or paths of ours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    if "Traceback (most recent call last)" in text:  # of a callback: what it raised stands last
        return text.splitlines()[-1].strip()[:400]
    paragraph = " ".join(text.split("\n\n")[0].split()).partition(" The error occurred while")[0]
    at_node = _AT_NODE.search(text)
    if at_node is not None:  # of a graph: the first paragraph says nothing but that
        paragraph = at_node["said"]
    if isinstance(error, _ASKS_FOR_NUMBERS):
        paragraph = _NO_CONCRETE.sub("", paragraph)
        paragraph = (
            f"{paragraph.rstrip('.')}; it asks in Python for the number behind a traced argument, "
            "as `if x > 0` does"
        )
    return f"{type(error).__name__}: {paragraph[:400]}" if paragraph else type(error).__name__


def cast(arrays: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Numbers as JAX's arrays of the dtypes that a program takes."""
    return [jax.numpy.asarray(a, aval.dtype) for a, aval in zip(arrays, avals, strict=True)]


_ASKS_FOR_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)
_NO_KERNEL = re.compile(
    r"not implemented|unimplemented|no opkernel|not supported|unsupported", re.I
)


def lacks_a_kernel(message: str) -> bool:
    """Does an error say that the library lacks an operation in this dtype? That is no fault of the rule."""
    return _NO_KERNEL.search(message) is not None


def with_pullback(fun: Callable[..., Any], count: int) -> Callable[..., Any]:
    """(leaves…, cotangents…) → (values, gradients)."""

    def both(*args: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values, pullback = jax.vjp(fun, *args[:count])
        return tuple(values), tuple(pullback(tuple(args[count:])))

    return both


def with_jacobian(fun: Callable[..., Any], count: int) -> Callable[..., Any]:
    """(leaves…, cotangents…) → (values, gradients) by forward mode, one tangent for each element.

    For functions that reverse mode does not go through, such as loops that a condition ends.
    """

    def both(*args: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, cotangents = args[:count], args[count:]
        jacobians = jax.jacfwd(fun, argnums=tuple(range(count)))(*leaves)
        gradients = tuple(
            sum(
                jax.numpy.tensordot(ct, jacobian[i], axes=ct.ndim)
                for ct, jacobian in zip(cotangents, jacobians, strict=True)
            )
            for i in range(count)
        )
        return tuple(fun(*leaves)), gradients

    return both


def opened(traced: Any | None) -> Program | None:
    """The program of what was traced; what JAX has wrapped up, as `custom_root`, may refuse only when it is opened."""
    try:
        return None if traced is None else program_of(traced)
    except Unexpanded as raised:
        raise Rejected(brief(raised.error)) from None
