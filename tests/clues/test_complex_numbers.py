"""Arguments that are complex: by an annotation, a docstring, or what a body takes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.clues.complex_numbers import clues, taken_apart
from gradcheck_cli.clues.reading import read
from gradcheck_cli.inputs.parameters import declared


def propagated(field: Any, distance: Any) -> Any:
    """Propagate a wave.

    Args:
      field: complex ``[..., n]`` samples.
      distance: a real number.
    """


def in_a_sentence(wave: Any, step: Any) -> Any:
    """Turn the complex wave by a step."""


def annotated(x: Complex64, y: Complex, z: float | complex) -> Any: ...  # type: ignore[name-defined]  # noqa: F821
def said_of_something_else(x: Any) -> Any:
    """x: a real signal, of which a complex spectrum is made."""


def hard(loss: Any) -> Any:
    """loss: of a complex model."""


def overlap(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a.conj() * b.T.imag + c * d.sum()


def named(function: Callable[..., Any]) -> tuple[set[str], set[str]]:
    found = clues(function, declared(function, 0, lambda i, p: True, ()))
    said = {name: clue.numbers for name, (clue,) in found.items()}
    return {n for n, each in said.items() if each == ("complex",)}, {
        n for n, each in said.items() if "real" in each
    }


@pytest.mark.parametrize(
    ("function", "told", "real"),
    [
        (propagated, {"field"}, {"distance"}),
        (in_a_sentence, {"wave"}, set()),
        (annotated, {"x", "y"}, {"z"}),
        (said_of_something_else, set(), {"x"}),
        (hard, set(), set()),
    ],
)
def test_texts_say_which_arguments_are_complex(
    function: Callable[..., Any], told: set[str], real: set[str]
) -> None:
    assert named(function) == (told, real)


def test_what_a_body_conjugates_may_be_complex() -> None:
    assert taken_apart(overlap, ["a", "b", "c", "d"]) == {"a", "b"}


def conjugated(a: Any, b: float) -> Any:
    """a: positive [n]"""
    return a.conj() * b.conjugate()


def test_what_is_real_or_has_a_domain_is_not_complex_for_a_conjugate() -> None:
    parameters = declared(conjugated, 0, lambda i, p: True, ())
    assert read(conjugated, parameters, []).maybe_complex == set()


def turned(spectrum: Any, zero: Any, first: Any) -> Any:
    """Zero- and first-order correction of spectra.

    spectrum (B, N) complex, zero and first (B, 1) in radians.
    """


def listed(fid: Any, width: Any) -> Any:
    """fid (B, T) complex; width (B, 1), Hz."""


def shunted(a: Any, b: Any) -> Any:
    """a b / (a + b) for two complex impedances of one shape."""


def one_of_three(a: Any, b: Any, share: Any) -> Any:
    """The mean of two complex impedances, with a share."""


def eigenvalues(trace: Any, det: Any) -> Any:
    """The sum over the moduli of the two complex eigenvalues of a matrix."""


def roots(p: Any, q: Any) -> Any:
    """The distance of two complex roots."""


def in_parts(a: Any, b: Any) -> Any:
    """The product of two complex numbers given as (re, im) pairs of floats."""


def refused(x: Any) -> Any:
    """The power of x (N,) complex numbers are not supported."""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (eigenvalues, set()),
        (roots, set()),
        (in_parts, set()),
        (refused, set()),
        (turned, {"spectrum"}),
        (listed, {"fid"}),
        (shunted, {"a", "b"}),
        (one_of_three, set()),
    ],
)
def test_it_may_stand_behind_the_shape_or_be_said_of_all_at_once(
    function: Callable[..., Any], told: set[str]
) -> None:
    assert named(function) == (told, set())
