"""Small sizes for shapes that a function takes."""

from __future__ import annotations

from gradcheck_cli.infer.candidates import Candidate, Shapes
from gradcheck_cli.infer.sizes import Size, Solution, unknown


def candidate(*axes: tuple[int, ...]) -> Candidate:
    """A candidate whose axes are unknowns, by their numbers."""
    shapes: Shapes = tuple(tuple(map(unknown, shape)) for shape in axes)
    return Candidate(shapes, Solution(), ascending=False, order=0)


TWO_TABLES = candidate((0, 1, 2), (3, 2, 4), (5, 6, 7))


def test_two_arrays_that_one_table_may_index_have_not_equally_many_rows() -> None:
    for left, right, _ in TWO_TABLES.sized(slides=False, tables=True):
        assert left[0] != right[0]


def test_windows_of_odd_sizes_are_short_and_unlike_what_they_slide_over() -> None:
    odd = tuple(unknown(u).plus(unknown(u)).plus(Size(constant=1)) for u in (2, 3))
    slid = Candidate(((unknown(0), unknown(1)), odd), Solution(), ascending=False, order=0)
    image, kernel = next(slid.sized([2, 3], {2, 3}, slides=False, tables=False))
    assert kernel == (3, 5)
    assert not set(image) & {3, 5}


def test_where_rows_are_said_to_be_equal_they_are() -> None:
    bound = candidate((0, 1, 2), (0, 2, 3), (4,))
    for left, right, _ in bound.sized(slides=False, tables=True):
        assert left[0] == right[0]
