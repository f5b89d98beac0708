"""Arguments are guessed from names and annotations first, then from the plainest values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from gradcheck_cli.discover.guesses import _stated_arrays, documented, guesses


def first(function: Callable[..., Any], functions: Any = (np.tanh,)) -> list[Any]:
    return next(guesses(function, functions))


@pytest.mark.parametrize("name", ["f", "fn", "activation", "inner_fun", "_func"])
def test_a_parameter_with_the_name_of_a_function_gets_one(name: str) -> None:
    function = eval(f"lambda {name}: None")
    assert first(function) == [np.tanh]


def test_an_annotation_says_that_it_is_called() -> None:
    def factory(rule: Callable[[float], float]) -> None: ...

    assert first(factory, [np.cos]) == [np.cos]


def test_what_holds_words_gets_those_that_the_text_tells_apart() -> None:
    def told(book: Sequence[str]) -> None:
        """Events.

        Args:
            book: in order of time. "draw" is a saca, "stir" a
                blending.
            name: "none" of these.
        """

    def asked(book: tuple[str, ...]) -> object:
        return [event == "draw" or event in ("stir", "rest") for event in book]

    def spelled(book: list[Literal["a", "b"]]) -> None: ...

    def silent(book: Sequence[str]) -> None: ...

    assert first(told) == [["draw", "stir", "draw"]]
    assert first(asked) == [("draw", "stir", "rest", "draw")]
    assert first(spelled) == [["a", "b", "a"]]
    assert not isinstance(first(silent)[0], list)


def test_without_required_parameters_there_is_one_guess() -> None:
    assert list(guesses(lambda x=1, *args, y=2: None)) == [[]]


def test_several_parameters_are_tried_alike_and_then_in_all_combinations() -> None:
    rows = list(guesses(lambda q, r: None))
    assert rows[0] == [0.5, 0.5]
    assert any(row[0] == 2 and row[1] == 0.5 for row in rows if not isinstance(row[0], np.ndarray))
    assert all(len(row) == 2 for row in rows)


def test_what_has_no_signature_is_not_guessed_for() -> None:
    no_function: Any = 5
    assert list(guesses(no_function)) == []


def projector(image_shape, angles: Sequence[float], pad: tuple[int, int]):
    rows, cols = image_shape
    return rows, cols, angles, pad


def test_what_holds_several_numbers_gets_several() -> None:
    first = next(guesses(projector))
    assert first == [(5, 4), [0.25, 0.75, 1.5], (5, 4)]


def test_counts_of_which_one_divides_the_other_are_whole() -> None:
    def attention(table, heads, groups):
        per_group = heads // groups
        return table // per_group

    def described(table, heads, groups):
        """Whose text

        stands at the margin."""
        return table // (heads // groups)

    for factory in (attention, described):
        _, heads, groups = first(factory)
        assert (heads, groups) == (4, 2)


class Projection:
    """A linear map.

    Args:
      kernel: float array of shape `[features, units]`.
      bias: an array (units,).
    """

    def __init__(self, kernel, bias):
        self.kernel, self.bias = kernel, bias


def test_arrays_have_the_shapes_that_the_docstring_gives() -> None:
    kernel, bias = next(guesses(Projection))
    assert (kernel.shape, bias.shape) == ((4, 3), (3,))
    assert len(set(kernel.reshape(-1)[:7].tolist())) == 7


class Spectrum:
    """Sizes of predators and prey.

    predator_mass: (P,) in grams.
    prey_mass: (Q,) in grams.
    prey_width: (Q,) in grams.
    """

    def __init__(self, predator_mass, prey_mass, prey_width):
        self.all = predator_mass, prey_mass, prey_width


def test_shapes_right_behind_the_names() -> None:
    predators, prey, width = (np.shape(value) for value in first(Spectrum))
    assert prey == width != predators
    assert len(prey) == len(predators) == 1


class Harmonics:
    """Sums over harmonics.

    table: int (candidates, harmonics), as made elsewhere; -1 = no such harmonic
    """

    def __init__(self, table):
        self.table = table


def test_integers_of_a_stated_shape_repeat_and_some_of_them_are_none() -> None:
    (table,) = next(guesses(Harmonics))
    assert (table.shape, table.dtype.kind) == ((4, 3), "i")
    assert set(table.reshape(-1).tolist()) == {-1, 0, 1, 2}


class Network:
    """Pairs of nodes.

    Attributes:
        src: Integer array ``(E,)``, where each edge begins.
        dst: Integer array ``(E,)``, where it ends.
    """

    def __init__(self, src, dst):
        self.src = src


def test_integers_in_the_words_of_an_attribute() -> None:
    src, dst = next(guesses(Network))
    assert (src.shape, src.dtype.kind) == (dst.shape, dst.dtype.kind) == ((4,), "i")
    assert not (src == dst).any()  # two tables of which one may stand for the other show nothing


class Scan:
    """A scan.

    pixels: int array (detectors, samples), the pixel that is hit.
    flags: optional bool array (detectors, samples); flagged ones are zero.
    gain: how loud.
    """

    def __init__(self, pixels, flags=None, gain=None):
        self.pixels = pixels


def test_what_may_be_left_out_has_the_sizes_of_what_may_not() -> None:
    (pixels,) = next(guesses(Scan))
    found = documented(Scan)
    assert list(found) == ["flags"]
    assert (found["flags"].shape, found["flags"].dtype.kind) == (pixels.shape, "b")


@dataclass(frozen=True)
class Layout:
    members: np.ndarray  # (E, 2) joint ids
    supported: np.ndarray  # (N, D) bool
    modulus: float
    name: str = "frame"


@dataclass
class Strict:
    size: float

    def __post_init__(self) -> None:
        raise ValueError(self.size)


def test_an_object_of_fields_is_made_of_what_is_said_beside_them() -> None:
    def factory(layout: Layout) -> None: ...

    (made,) = first(factory)
    assert isinstance(made, Layout)
    assert (made.members.dtype, made.members.shape) == (np.int32, (4, 2))
    assert (made.supported.dtype, made.modulus, made.name) == (bool, 0.5, "frame")


def test_an_object_that_refuses_its_fields_is_no_guess() -> None:
    def factory(strict: Strict) -> None: ...

    assert first(factory) == [0.5]


def ranges(cells, years):
    """Ranges over a raster.

    Cells of the raster [G, 2] that are flagged get nothing.

    :param years: number of calendar years in the series
    """


def test_what_begins_a_sentence_and_what_counts() -> None:
    cells, years = first(ranges)
    assert (cells.shape, years) == ((4, 2), 3)


def compensate(reading, table, craft):
    """reading [N] (rad), table [A, 4], craft int [N]."""


def test_shapes_that_stand_in_a_sentence() -> None:
    reading, table, craft = first(compensate)
    assert [value.shape for value in (reading, table, craft)] == [(4,), (3, 4), (4,)]
    assert [value.dtype.kind for value in (reading, table, craft)] == ["f", "f", "i"]


@dataclass
class MainField:
    inclination: float


def anomaly(field):
    """The anomaly along ``field`` (a MainField)."""


def test_an_object_of_the_class_that_the_text_names() -> None:
    (field,) = first(anomaly)
    assert field == MainField(0.5)


@pytest.mark.parametrize(
    "text",
    [
        "slope [0, 1]",
        "slope [K]",
        "slope [optional]",
        "slope [7]",
        "slope int (optional)",
        "slope into (low, high)",
        "slope [1000000, a]",
    ],
)
def test_units_intervals_and_citations_are_no_shapes(text: str) -> None:
    def factory(slope): ...

    factory.__doc__ = f"A leaky unit of {text}."
    assert all(
        np.ndim(value) < 1 or np.shape(value) == (3,) for (value,) in list(guesses(factory))[:3]
    )


def test_what_the_text_begins_with_is_the_shape_of_the_one_parameter() -> None:
    def bound(ids: Any) -> Any:
        """Binds a padded id table, (sessions, lines), to the pooling function."""
        return np.asarray(ids, dtype="int32")

    def two(ids: Any, scale: Any) -> Any:
        """Binds a padded id table, (sessions, lines), to the pooling function."""
        return ids, scale

    def later(ids: Any) -> Any:
        """Pools rows. What it makes takes a table (templates, width)."""
        return ids

    def scaled(factor: Any) -> Any:
        """Makes the scaling of an array (rows, columns), by the factor squared."""
        return factor * factor

    first = next(guesses(bound))[0]
    assert all(np.ndim(values[0]) < 2 or values[0].shape == (3, 3) for values in guesses(scaled))
    assert (first.shape, first.dtype) == ((4, 3), np.int32)
    assert all(np.ndim(values[0]) < 2 or values[0].shape == (3, 3) for values in guesses(two))
    assert all(np.ndim(values[0]) < 2 or values[0].shape == (3, 3) for values in guesses(later))


def test_a_length_is_longer_than_the_window_that_the_function_has() -> None:
    def framed(n_samples, window=20, hop=10):
        """Frames.

        n_samples : int
            Length of the recordings.
        """

    def plain(n_samples: int) -> None: ...

    def of_text(mode, window=20):
        """mode : str"""

    assert list(guesses(framed))[:4] == [[3], [2], [1], [43]]
    assert [43] not in [v for v in guesses(plain) if type(v[0]) is int]
    assert [43] not in [v for v in guesses(of_text) if type(v[0]) is int]


def blended(adjacency, weights):
    """Blend each with its neighbours.

    ``adjacency`` is the symmetric (n, n) matrix of counts; weights is the (n, m) table of their shares.
    """
    return np.asarray(adjacency) @ np.asarray(weights)


def looked_up(codes, scale):
    """``codes`` is an integer table (vocabulary, books): a token is the sum of its codewords. scale is a vector (books,)."""
    return np.asarray(codes) * scale


def test_a_kind_of_array_is_said_before_its_shape() -> None:
    codes, scale = first(looked_up)
    assert (codes.shape, codes.dtype) == ((4, 3), np.int32)
    assert (scale.shape, scale.dtype) == ((3,), np.float32)


def remarked(a, b, c):
    """a is a matrix (rows, places), b is a table (rows, places) of token ids, and c is the vector (optional), as the mask."""
    return a, b, c


def test_a_remark_in_brackets_is_no_shape() -> None:
    found = _stated_arrays(remarked, ["a", "b", "c"])
    assert {name: each[0].dtype for name, each in found.items()} == {"a": np.float32, "b": np.int32}


def test_what_is_the_matrix_of_a_shape_has_that_shape() -> None:
    adjacency, weights = first(blended)
    assert adjacency.shape == (4, 4)
    assert weights.shape == (4, 3)
    assert (adjacency == adjacency.T).all()
    assert len(set(adjacency.sum(axis=1).tolist())) > 1


def test_a_matrix_that_nobody_speaks_of_has_rows_of_their_own() -> None:
    matrices = [row[0] for row in guesses(lambda q: None) if getattr(row[0], "ndim", 0) == 2]
    assert len(set(matrices[0].sum(axis=1).tolist())) == 3
    assert (matrices[0] == matrices[0].T).all()
    assert (matrices[1] == np.eye(3)).all()


def till(item_ids, sharers, rate):
    """Close over a month of receipts.

    item_ids: the price list entry of each receipt line (the same things come week after week).
    sharers:  lines x people, truthy where a person takes part in a line.
    rate: a scalar discount that is taken off each line
    """
    part = np.asarray(sharers, dtype=float)
    return lambda prices: prices[item_ids] @ part * rate


def test_lines_by_people_and_what_is_said_of_each_line() -> None:
    item_ids, sharers, rate = first(till)
    assert sharers.shape == (4, 3)
    assert item_ids.tolist() == [0, 1, 2, 0]
    assert np.ndim(rate) == 0
