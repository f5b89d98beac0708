"""How many axes arrays are meant to have, by the gradients that a rule returns for fewer."""

from __future__ import annotations

from gradcheck_cli.infer.returned_ranks import Ranks, returned_ranks
from gradcheck_cli.infer.sizes import unknown
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.refusals import RuleError

PATHS = ["q", "k", "b"]


def refused(message: str, *shapes: tuple[int, ...]) -> list[tuple[Signature, RuleError]]:
    arguments = tuple((n, Leaf(n, s, "test")) for n, s in zip(PATHS, shapes, strict=True))
    return [(Signature(arguments), RuleError("shape", message))]


def told(name: str, got: str, wanted: str, *shapes: tuple[int, ...]) -> list[Ranks]:
    message = f"the gradient of {name} has the shape {got}, its argument {wanted}"
    return returned_ranks(refused(message, *shapes), PATHS)


def test_all_arrays_have_the_axes_more_or_those_of_as_many_axes() -> None:
    every, alike = told("q", "[1, 1, 4, 3]", "[4, 3]", (4, 3), (5, 3), (5,))
    assert (every.axes, every.leading) == ((4, 4, 3), (2, 2, 2))
    assert (alike.axes, alike.leading) == ((4, 4, 1), (2, 2, 0))


def test_a_later_gradient_alone_lacks_a_sum_over_the_batch() -> None:
    shapes = ((4, 3), (5, 3), (4, 5))
    assert told("b", "[1, 1, 4, 5]", "[4, 5]", *shapes) == []
    message = "at output[2] an output of type float32[1,1,4,5] corresponding to an input of type float32[4,5]"
    assert returned_ranks(refused(message, *shapes), PATHS) == []


def test_one_axis_more_may_be_the_batch_that_a_rule_forgets_to_sum_over() -> None:
    assert told("q", "[4, 3]", "[3]", (3,), (4, 3), (3,)) == []
    assert told("q", "[1, 3]", "[3]", (3,), (3,), (3,)) != []


def test_no_array_has_more_axes_than_are_tried() -> None:
    assert told("q", "[1, 1, 2, 4, 3]", "[2, 4, 3]", (2, 4, 3), (2, 4, 3), (3,)) == []


def test_a_call_without_open_arrays_has_none_to_raise() -> None:
    message = "the gradient of q has the shape [1, 1, 3], its argument [3]"
    assert returned_ranks(refused(message, (3,), (3,), (3,)), []) == []


def test_leading_axes_are_one_batch() -> None:
    shapes = [[unknown(4), unknown(3)], [unknown(2), unknown(1)], [unknown(0)]]
    batch = Ranks((2, 2, 1), (1, 1, 0)).bound(shapes)
    assert batch.of(unknown(4)) == batch.of(unknown(2)) == unknown(2)
    assert batch.of(unknown(3)) == unknown(3)


def test_a_gradient_that_ends_in_an_axis_of_one_is_that_of_a_column() -> None:
    (column,) = told("k", "[3, 1]", "[3]", (3, 4), (3,), (3,))
    assert (column.axes, column.leading, column.column) == ((2, 2, 1), (0, 0, 0), 1)
    shapes = [[unknown(0), unknown(1)], [unknown(2), unknown(3)], [unknown(4)]]
    assert column.bound(shapes).number(unknown(3)) == 1
