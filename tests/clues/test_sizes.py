"""Dimensions of the arrays that a function refers to, and halves that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.clues.sizes import counts_axes, halves, loops, open_axes, sizes

WEIGHT = np.ones((5, 7))


class Layer:
    def __init__(self) -> None:
        self.kernel = np.ones((9, 1))

    def __call__(self, x):
        return x @ self.kernel


def test_globals_closures_and_objects_have_dimensions() -> None:
    bias = np.ones(6)
    assert sizes(lambda x: x @ WEIGHT) == [5, 7]
    assert sizes(lambda x: x + bias) == [6]
    assert sizes(Layer().__call__) == [9]


def test_each_dimension_counts_once_and_only_a_few() -> None:
    many = np.ones((2, 3, 2, 4, 5, 6))
    assert sizes(lambda x: x + many) == [2, 3, 4, 5]


def test_a_function_without_surroundings_has_none() -> None:
    assert sizes(np.tanh) == []


def cut(x: Any) -> Any:
    return x[: len(x) // 2]


def spectrum(xp: Any, x: Any) -> Any:
    return xp.fft.rfft(x)


def folded(x: Any) -> Any:
    """x: (2 n,), n % 2 == 0."""
    return x


def left_fit(x: Any) -> Any:
    return x // 20 + x


def turned(x: Any) -> Any:
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], -1)


def turned_at_once(x: Any) -> Any:
    return np.concatenate([-x[len(x) // 2 :], x[: len(x) // 2]])


def turned_and_counted(x: Any) -> Any:
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], -1) * (len(x) % 2)


def corners(boxes: Any) -> Any:
    return np.concatenate([boxes[..., :2] + boxes[..., 2:], boxes[: len(boxes) // 2, :2]])


def parted(xp: Any, x: Any, f: int) -> Any:
    return xp.fft.rfft(x[:f]) + x[f:]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (corners, True),
        (parted, True),
        (turned, False),
        (turned_at_once, False),
        (turned_and_counted, True),
        (cut, True),
        (spectrum, True),
        (folded, True),
        (left_fit, False),
    ],
)
def test_halves(function: Any, expected: bool) -> None:
    assert halves([function]) is expected


def step_by_step(x: Any) -> Any:
    total = x[0]
    for row in x[1:]:
        total = total * row + 1
    return total


def by_helper(x: Any) -> Any:
    return step_by_step(x)


def strided(x: Any) -> Any:
    return x[2::2]


def fixed_count(x: Any) -> Any:
    for _ in range(3):
        x = x * x
    return x[1:]


@pytest.mark.parametrize(
    ("function", "expected"),
    [(step_by_step, True), (by_helper, True), (strided, True), (fixed_count, False), (cut, False)],
)
def test_loops(function: Any, expected: bool) -> None:
    assert loops([function]) is expected


def without_the_last(v: Any) -> Any:
    return v.sum(axis=tuple(range(v.ndim - 1)))


def of_a_tensor(v: Any, g: Any) -> Any:
    dims = list(range(1, v.dim()))
    return v.sum(dims) * g


def of_a_shape(v: Any) -> Any:
    return [v.sum(i) for i in range(len(v.shape))]


def asks_for_two(v: Any) -> Any:
    return v if v.ndim == 2 else v.sum(range(3))


@pytest.mark.parametrize(
    ("function", "names"),
    [(without_the_last, {"v"}), (of_a_tensor, {"v"}), (of_a_shape, {"v"}), (asks_for_two, set())],
)
def test_arrays_whose_axes_are_counted(function: Any, names: set[str]) -> None:
    assert counts_axes([function]) == names


def first_score(logits: Any, scale: Any) -> Any:
    likely = np.exp(logits)
    whole = likely / likely.sum()
    return whole[..., 0].mean() * scale[..., None]


def filtered(logits: Any, scale: Any, conv: Any) -> Any:
    smooth = conv(logits / scale, scale)
    return smooth[..., 0]


def columns(pairs: Any) -> Any:
    return pairs[:, 0] - pairs[:, 1]


@pytest.mark.parametrize(
    ("function", "expected"),
    [(first_score, {"logits"}), (filtered, {"logits"}), (turned, {"x"}), (columns, set())],
)
def test_what_is_taken_after_dots_has_any_axes_before(function: Any, expected: set[str]) -> None:
    assert open_axes(function) & {"logits", "scale", "x", "pairs"} == expected
