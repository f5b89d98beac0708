"""Errors of four frameworks, and the equations that they state."""

from __future__ import annotations

import itertools

import pytest

from gradcheck_cli.infer.mismatch import (
    asks_to_divide,
    asks_to_sort,
    beside_stated,
    divided,
    in_parts,
    in_step,
    proposals,
    refilled,
    returned_shapes,
    wants_integers,
)
from gradcheck_cli.infer.sizes import Size, Solution, unknown

AXES = [unknown(i) for i in range(6)]
NUMBERS = {number: i for i, number in enumerate(map(Solution().number, AXES))}
N = {i: number for number, i in NUMBERS.items()}  # 5, 7, 11, 13, 17, 19


@pytest.mark.parametrize(
    ("message", "equal"),
    [
        (f"mul got incompatible shapes for broadcasting: ({N[0]}, {N[1]}), ({N[2]},).", [(1, 2)]),
        (f"Incompatible shapes for broadcasting: shapes=[({N[0]}, {N[1]}), ({N[2]}, {N[3]})]", [(1, 3), (0, 2)]),
        (f"dot_general requires contracting dimensions to have the same shape, got ({N[1]},) and ({N[2]},).", [(1, 2)]),
        (f"Incompatible types for matmul arguments: float32[{N[0]},{N[1]}] and float32[{N[2]},{N[3]}]", [(1, 2)]),
        (f"Incompatible types for matmul arguments: float32[{N[0]},{N[1]},{N[2]}] and float32[{N[3]},{N[4]},{N[5]}]", [(2, 4), (0, 3)]),
        (f"mat1 and mat2 shapes cannot be multiplied ({N[0]}x{N[1]} and {N[2]}x{N[3]})", [(1, 2)]),
        (f"The size of tensor a ({N[1]}) must match the size of tensor b ({N[2]}) at non-singleton dimension 1", [(1, 2)]),
        (f"weight of size [{N[3]}, {N[4]}, 2], expected input[{N[0]}, {N[1]}, {N[2]}] to have {N[4]} channels, but got {N[1]} channels instead", [(4, 1)]),
        (f"Incompatible shapes: [{N[0]},{N[1]}] vs. [{N[2]}] [Op:Mul] name:", [(1, 2)]),
        (f"Matrix size-incompatible: In[0]: [{N[0]},{N[1]}], In[1]: [{N[2]},{N[3]}] [Op:MatMul] name:", [(1, 2)]),
        (f"Argument to Cholesky must have shape [..., n, n], got shape ({N[0]}, {N[1]}).", [(0, 1)]),
        (f"The expanded size of the tensor ({N[5]}) must match the existing size ({N[1]}) at non-singleton dimension 0.  Target sizes: [{N[5]}, {N[4]}, -1].  Tensor sizes: [{N[1]}, 1, {N[0]}]", [(5, 1)]),
        (f"concatenating along dimension 1 for shapes ({N[0]}, {N[1]}), ({N[2]}, {N[3]})", [(0, 2)]),
    ],
)  # fmt: skip
def test_the_likeliest_equation_of_a_refusal(message: str, equal: list[tuple[int, int]]) -> None:
    offered = list(proposals(message, AXES, Solution()))
    wanted = Solution().with_equations([(unknown(a), unknown(b)) for a, b in equal])
    assert wanted in offered[:3]


def test_what_one_pair_of_shapes_wants_comes_before_the_second_guess_of_another() -> None:
    message = f"Incompatible shapes for broadcasting: shapes=[({N[0]}, 1), ({N[0]}, {N[1]}), (8,)]"
    first = next(iter(proposals(message, AXES, Solution())))
    assert first == Solution().with_equations([(unknown(1), Size(constant=8))])


def test_the_number_of_an_axis_is_no_size() -> None:
    message = f"Expected dimension {N[1]} at axis 2 of the input shaped [{N[0]},{N[2]}] but got dimension {N[2]}"
    first = next(iter(proposals(message, AXES, Solution())))
    assert first.of(AXES[1]) == first.of(AXES[2])
    assert (
        list(proposals("Expected input 3 to have rank 4 along dimension 2", AXES, Solution())) == []
    )


def test_a_size_that_the_function_states() -> None:
    first = next(iter(proposals(f"must have length 3. Got {N[1]}", AXES, Solution())))
    assert first.of(AXES[1]) == Size(constant=3)


@pytest.mark.parametrize(
    "message",
    [
        f"shape '[1, {N[1]}, 1, 1]' is invalid for input of size {N[3]}",
        f"cannot reshape array of shape ({N[3]},) (size {N[3]}) into shape (1, {N[1]}, 1, 1) (size {N[1]})",
        f"Input to reshape is a tensor with {N[3]} values, but the requested shape has {N[1]}",
    ],
)
def test_a_vector_that_is_reshaped_fills_its_new_shape(message: str) -> None:
    (solution,) = refilled(message, AXES, Solution())
    assert solution.number(AXES[3]) == solution.number(AXES[1])


@pytest.mark.parametrize(
    "message",
    [
        f"shape '[{N[5]}, 1, {N[0] * N[1]}]' is invalid for input of size {N[3] * N[1] * N[0]}",
        f"cannot reshape array of shape ({N[3]}, {N[1]}, {N[0]}) (size {N[3] * N[1] * N[0]}) into shape ({N[5]}, {N[0] * N[1]}) (size {N[5] * N[0] * N[1]})",
    ],
)
def test_an_array_that_is_reshaped_fills_its_new_shape(message: str) -> None:
    (solution,) = refilled(message, AXES, Solution())
    assert solution.number(AXES[5]) == solution.number(AXES[3])


@pytest.mark.parametrize(
    "message",
    [
        f"shape '[{N[2]}, {N[0]}, -1]' is invalid for input of size {N[2] * N[1]}",
        f"cannot reshape array of shape ({N[2]}, {N[1]}) (size {N[2] * N[1]}) into shape ({N[2]}, {N[0]}, -1) because the product of specified axis sizes ({N[2] * N[0]}) doesn't evenly divide {N[2] * N[1]}",
        f"Input to reshape is a tensor with {N[2] * N[1]} values, but the requested shape requires a multiple of {N[2] * N[0]} [Op:Reshape]",
    ],
)
def test_parts_of_any_size_have_two_elements_each_before_they_have_one(message: str) -> None:
    twice, once = refilled(message, AXES, Solution())
    assert twice.number(AXES[1]) == 2 * twice.number(AXES[0])
    assert once.number(AXES[1]) == once.number(AXES[0])


@pytest.mark.parametrize(
    "message",
    [
        f"indices[0,2] = {2 * N[1]} is not in [0, {N[1]}) [Op:GatherV2] name: ",
        f"index {N[1]} is out of bounds for dimension 0 with size {N[1]}",
    ],
)
def test_an_axis_is_as_long_as_the_places_ask_for_that_the_function_knows(message: str) -> None:
    longer = [solution.number(AXES[1]) for solution in proposals(message, AXES, Solution())]
    assert longer[:3] == [2 * N[1], 4 * N[1], 8 * N[1]]


def test_axes_that_are_divided_into_parts_are_not_as_many_as_these() -> None:
    message = f"cannot reshape array of shape ({N[0]}, {N[1]}) (size {N[0] * N[1]}) into shape ({N[0]}, 4, 1) (size {N[0] * 4})"
    assert not list(refilled(message, AXES, Solution()))


def test_an_array_without_elements_fills_nothing() -> None:
    message = f"cannot reshape array of shape ({N[0]}, {N[1]}) (size {N[0] * N[1]}) into shape ({N[0]}, 0, 2) (size 0)"
    assert not list(refilled(message, AXES, Solution()))


@pytest.mark.parametrize(
    "message",
    [
        f"cannot reshape array of shape ({N[1]}, {N[5]}) (size {N[1] * N[5]}) into shape (-1, {N[5]}, {N[3]}) because the product of specified axis sizes ({N[5] * N[3]}) does not evenly divide {N[1] * N[5]}",
        f"shape '[-1, {N[5]}, {N[3]}]' is invalid for input of size {N[1] * N[5]}",
    ],
)
def test_an_axis_that_a_rule_cuts_is_as_long_as_its_parts(message: str) -> None:
    taken = Solution().with_equations([(AXES[0], AXES[5])])  # the function wants as many
    assert taken is not None
    shapes = [(AXES[1], AXES[0]), (AXES[5], AXES[2], AXES[3])]
    bound = Solution().with_equations(in_parts(message, shapes, taken))
    assert bound is not None
    assert bound.of(AXES[5]) == Size(constant=3)
    assert bound.of(AXES[0]) == Size().plus(AXES[3], 3)
    assert in_parts("no numbers at all", shapes, taken) == []


def test_what_starts_with_a_shape_has_its_first_axes() -> None:
    message = f"data.shape = [{N[0]},{N[1]}] does not start with segment_ids.shape = [{N[2]}]"
    first = next(iter(proposals(message, AXES, Solution())))
    assert first.number(AXES[0]) == first.number(AXES[2])
    assert first.number(AXES[1]) == N[1]


def test_an_axis_is_as_long_as_what_it_is_unpacked_into() -> None:
    few = "too many values to unpack (expected 2)"
    first, second = itertools.islice(proposals(few, AXES[:3], Solution()), 2)
    assert [first.number(size) for size in AXES[:3]] == [N[0], N[1], 2]
    assert [second.number(size) for size in AXES[:3]] == [N[0], 2, N[2]]


def test_without_numbers_sizes_are_those_that_are_stated_or_beside_them() -> None:
    four = Solution().with_equations([(AXES[0], Size(constant=4))])
    assert four is not None
    found = [following.number(AXES[1]) for following in beside_stated(AXES[:2], four)]
    assert found == [4, 5, 3]
    assert list(beside_stated(AXES, Solution())) == []


def test_each_proposal_comes_once_and_says_something_new() -> None:
    offered = list(proposals(f"({N[0]}, {N[1]}) and ({N[1]}, {N[0]})", AXES, Solution()))
    assert len(offered) == len({repr(s) for s in offered})
    assert list(proposals("no numbers at all", AXES, Solution())) == []


def test_what_else_a_refusal_asks_for() -> None:
    assert asks_to_divide("array split does not result in an equal division: rest is 1")
    assert asks_to_sort("segment ids are not increasing")
    assert wants_integers("Indexer must have integer or boolean type")
    assert not wants_integers("ZeroDivisionError: integer modulo by zero")
    given = "index_add_(): Index is supposed to be a vector, but got dim: 2 with type: Long and size: [7, 5]"
    assert not wants_integers(given)
    assert wants_integers("\"bincount_cpu\" not implemented for 'Float'")
    assert not any(f("shapes differ") for f in (asks_to_divide, asks_to_sort, wants_integers))


def test_an_operand_that_is_turned_in_a_product_has_its_last_axis_in_common() -> None:
    message = "Matrix size-incompatible: In[0]: [{},{}], In[1]: [{},{}] [Op:MatMul] name:"
    offered = list(proposals(message.format(N[0], N[1], N[2], N[3]), AXES, Solution()))
    assert Solution().with_equations([(unknown(1), unknown(3))]) in offered[:2]
    tried = Solution().with_equations([(unknown(1), unknown(2))])
    assert tried is not None
    assert not list(proposals(message.format(N[0], N[1], N[1], N[3]), AXES, tried))


def test_a_sum_that_is_another_sum_is_equal_to_it_by_parts() -> None:
    kernel, joined = AXES[5].plus(AXES[4]), AXES[1].plus(AXES[0])  # I + H, and n + m
    got = [Solution().number(size) for size in (joined, kernel)]
    message = "contracting dimensions to have the same shape, got ({},) and ({},).".format(*got)
    offered = list(proposals(message, [*AXES[:2], kernel], Solution()))
    assert any(each.of(joined) == each.of(kernel) for each in offered)


def test_no_size_helps_where_arrays_of_different_numbers_of_axes_are_joined() -> None:
    message = "Cannot concatenate arrays with different numbers of dimensions: got (5,), (7, 11)."
    assert not list(proposals(message, [unknown(0), unknown(1), unknown(2)], Solution()))


def test_an_axis_that_has_to_divide_another_is_first_taken_to_be_equal() -> None:
    message = f"input depth must be evenly divisible by filter depth: {N[3]} vs {N[1]} [Op:Conv]"
    (solved,) = divided(message, AXES, Solution())
    assert solved.of(AXES[3]) == solved.of(AXES[1])
    assert divided(f"must be evenly divisible by 4, got {N[3]}", AXES, Solution()) == []


@pytest.mark.parametrize(
    "message",
    [
        "an output of type float32[10,18] corresponding to an input of type float32[4,3], so",
        "Function FBackward returned an invalid gradient at index 0 - got [10, 18] but expected shape compatible with [4, 3]",
        "the gradient of x has the shape [10, 18], its argument [4, 3]",
    ],
)
def test_the_shape_of_a_gradient_is_said(message: str) -> None:
    assert returned_shapes(message) == [(10, 18)]
    assert returned_shapes("shapes do not match") == []


@pytest.mark.parametrize(
    "message",
    [
        "IndexError: the kernel `add` reads element 35 of `b_ptr`, which has 35, in its program (0, 0, 0)",
        "its kernels leave 6 elements of b unread",
        "element 4 of what it returns is never written by a kernel",
    ],
)
def test_a_kernel_that_says_no_size_asks_for_arrays_in_step(message: str) -> None:
    a, b = (unknown(0), unknown(1)), (unknown(2), unknown(3))
    ways = [way.bound for way in in_step([a, b], message, Solution())]
    assert [set(way) for way in ways] == [{0, 1}, {0, 1}, {1}, {1}, {1}, {0}]
    assert [way[1] for way in ways[2:5]] == [unknown(3), unknown(2), unknown(3)]
    rows, weight, bias = (unknown(0), unknown(1)), (unknown(2),), (unknown(3),)
    first = next(in_step([rows, weight, bias], message, Solution()))
    assert {first.of(unknown(u)) for u in (1, 2, 3)} == {first.of(unknown(1))}
    assert not list(in_step([a, b], "shapes differ", Solution()))
    tied = Solution().with_equations([(unknown(0), unknown(2))])
    assert tied is not None
    assert not list(in_step([a, b], message, tied))
