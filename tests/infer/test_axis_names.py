"""Names for solved axes: a reader and a comment see which have to be equal."""

from __future__ import annotations

from gradcheck_cli.infer.axis_names import axis_names, halves, windows
from gradcheck_cli.infer.sizes import Size, Solution, unknown
from gradcheck_cli.infer.template import Hole, unknown_shapes


def hole(path: str, *dims: str) -> Hole:
    return Hole(path, "float", dims or None)


def names(solution: Solution, *holes: Hole, ranks: tuple[int, ...]) -> list[str]:
    shapes = unknown_shapes(holes, ranks)
    return [" ".join(axes) for axes in axis_names(holes, shapes, solution)]


def test_a_vector_alone() -> None:
    assert names(Solution(), hole("x"), ranks=(1,)) == ["n"]


def test_sizes_that_were_solved_to_be_equal_have_one_name() -> None:
    solution = Solution({0: unknown(1)})  # the last axis of x is that of w
    assert names(solution, hole("x"), hole("w"), ranks=(2, 1)) == ["b d", "d"]


def test_multiples_sums_and_numbers() -> None:
    solution = Solution({0: unknown(1).plus(unknown(1)), 1: unknown(1)})
    assert names(solution, hole("x"), hole("w"), ranks=(1, 1)) == ["n", "2*n"]
    joined = Solution({0: unknown(1).plus(unknown(2))})
    assert names(joined, hole("x"), hole("h"), hole("w"), ranks=(1, 1, 1)) == ["b", "d", "d+b"]
    shorter = Solution({0: unknown(1).plus(Size(constant=-1))})
    assert names(shorter, hole("x"), hole("w"), ranks=(1, 1)) == ["n", "n-1"]
    assert names(Solution({0: Size(constant=4)}), hole("q"), ranks=(1,)) == ["4"]


def test_names_of_a_source_come_first() -> None:
    holes = (hole("x", "batch", "b"), hole("w"))
    assert names(Solution(), *holes, ranks=(2, 1)) == ["batch b", "d"]


def test_what_lies_beside_the_centre_of_a_window_is_one_too() -> None:
    holes = (hole("x", "n"), hole("w", "2*kw_half+1"))
    shapes = unknown_shapes(holes, (1, 1))
    (half,) = windows(holes, shapes, Solution())
    assert halves(shapes, Solution()) == {half}
    assert shapes[1][0] == unknown(half).plus(unknown(half)).plus(Size(constant=1))


def test_windows_by_their_names() -> None:
    holes = (hole("x", "batch", "width"), hole("w", "kw", "taps"))
    shapes = unknown_shapes(holes, (2, 2))
    assert [unknown(u) for u in windows(holes, shapes, Solution())] == list(shapes[1])
