"""Sizes as unknowns: equations between them, and what numbers of an error may stand for."""

from __future__ import annotations

from gradcheck_cli.infer.sizes import Size, Solution, equations, unknown

A, B, C = unknown(0), unknown(1), unknown(2)


def test_unknowns_are_numbers_of_their_own() -> None:
    numbers = [Solution().number(size) for size in (A, B, C)]
    assert len(set(numbers)) == 3


def test_what_is_equal_gets_one_number() -> None:
    solution = Solution().with_equations([(A, B)])
    assert solution is not None
    assert solution.number(A) == solution.number(B) != solution.number(C)


def test_a_sum_and_a_multiple_are_solved_for() -> None:
    doubled = Size().plus(B, 2)
    solution = Solution().with_equations([(A, doubled), (C, A.plus(B))])
    assert solution is not None
    assert solution.number(A) == 2 * solution.number(B)
    assert solution.number(C) == 3 * solution.number(B)


def test_what_cannot_hold_or_is_nothing_new_has_no_solution() -> None:
    assert Solution().with_equations([(A, A)]) is None
    assert Solution().with_equations([(A, A.plus(Size(constant=1)))]) is None


def test_a_number_of_the_function_itself_is_a_size() -> None:
    solution = Solution().with_equations([(A, Size(constant=4))])
    assert solution is not None
    assert solution.number(A) == 4


def readings(left: int, right: int) -> list[tuple[Size, Size]]:
    return list(equations([A, B], Solution(), left, right))


def test_numbers_in_an_error_name_their_axes() -> None:
    a, b = (Solution().number(size) for size in (A, B))
    assert readings(a, b) == [(A, B)]
    assert readings(a, 3 * b)[0] == (A, Size().plus(B, 3))
    assert (A, A.plus(B)) in readings(a, a + b)
    assert (A, Size(constant=4)) in readings(a, 4)


def test_the_rest_of_a_size_that_is_cut_into_parts() -> None:
    a, b = (Solution().number(size) for size in (A, B))
    assert (B, Size().plus(A, 3)) in readings(b - a, a)


def test_multiples_are_equal_where_what_they_are_multiples_of_is() -> None:
    three = [Size().plus(unknown, 3) for unknown in (A, B)]
    solution = Solution().with_equations([(three[0], three[1])])
    assert solution is not None
    assert solution.number(A) == solution.number(B)


def test_parts_of_sizes_in_an_error() -> None:
    three = [Size().plus(unknown, 3) for unknown in (A, B)]
    one, other = (Solution().number(unknown) for unknown in (A, B))
    assert (A, B) in equations(three, Solution(), one, other)
    divisible = Solution(scale=12)
    third, other_third = (divisible.number(unknown) // 3 for unknown in (A, B))
    assert (A, B) in equations([A, B], divisible, third, other_third)
