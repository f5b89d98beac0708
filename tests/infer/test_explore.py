"""Exploring: shapes are solved from what numpy refuses; the richest that function and rule take is chosen.

Long because each way in which a search can go astray has a function and a rule of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.infer.explore import Exploration, Explorer
from gradcheck_cli.infer.template import template
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.inputs.stand_ins import integers
from gradcheck_cli.subject.refusals import Rejected, RuleError
from tests.infer.fitted import Gradient, fixed, shapes


def explored(gradient: Gradient, clues: Any = None, **arguments: Any) -> Exploration:
    names = [p.name for p in gradient.parameters()]
    chosen = tuple((n, arguments.get(n, Leaf(n, (), "test"))) for n in names)
    return Explorer(gradient, "float32", template(Signature(chosen), clues or {}, [])).explored()


def rich(gradient: Gradient, **arguments: Any) -> dict[str, tuple[int, ...]]:
    subject = explored(gradient, **arguments).subject
    assert subject is not None
    return shapes(subject)


def same_shapes(*wanted: str) -> Any:
    """A rule that takes arrays only where these have one shape."""

    class Rule(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            if len({leaf.shape for leaf in signature.leaves if leaf.path in wanted}) > 1:
                raise RuleError("shape", "the gradient is of another shape")
            return subject

    return Rule


def test_a_dense_layer() -> None:
    found = rich(Gradient(lambda x, w, b: x @ w + b))
    (rows, inner), (same, columns) = found["x"], found["w"]
    assert inner == same
    assert found["b"] in ((columns,), (rows, columns))
    assert len({rows, inner, columns}) == 3


def test_a_number_that_the_function_states_is_no_sum_of_axes() -> None:
    """Six zones of which each has a share: `5 + 1` of an axis of five by chance."""
    zones = np.ones(6)

    def missing(kernel, feats, dwell):
        return zones - dwell @ (feats @ kernel)

    found = rich(Gradient(missing))
    assert found["kernel"][1:] == (6,)
    assert found["dwell"][-1:] == found["feats"][:1]


def test_attention_has_queries_and_keys_of_their_own_number() -> None:
    def attend(q, k, v):
        return (q @ np.swapaxes(k, -1, -2)) @ v

    found = rich(Gradient(attend))
    assert found["q"][-1] == found["k"][-1]
    assert found["k"][0] == found["v"][0] != found["q"][0]
    assert found["v"][-1] not in found["q"]


def test_one_size_is_a_multiple_of_another() -> None:
    def gated(x, w):
        parts = np.split(x @ w, 3, axis=-1)
        return parts[0] * parts[1] + parts[2] * x

    found = rich(Gradient(gated))
    assert found["w"][1] == 3 * found["x"][-1]


def test_a_sum_of_sizes() -> None:
    def joined(x, h, w):
        return np.concatenate([x, h], -1) @ w

    found = rich(Gradient(joined))
    assert found["w"][0] == found["x"][-1] + found["h"][-1]


def test_a_window_is_shorter_than_its_signal() -> None:
    def slid(x, kernel):
        if np.ndim(x) != 1 or np.ndim(kernel) != 1 or len(kernel) > len(x):
            raise ValueError("a window must fit")
        return np.convolve(x, kernel, mode="valid")

    found = rich(Gradient(slid))
    assert 1 < found["kernel"][0] < found["x"][0]


def test_the_rule_chooses_among_what_the_function_takes() -> None:
    found = rich(same_shapes("x", "y")(lambda x, y: x * y))
    assert found["x"] == found["y"]
    assert len(found["x"]) == 2


def test_richer_shapes_that_the_rule_refuses_are_kept() -> None:
    outcome = explored(same_shapes("x", "y")(lambda x, y: x * y))
    assert outcome.refused
    assert {leaf.shape for leaf in outcome.refused[0][0].leaves} != {(4, 3)}


def blocks(x, right):
    if np.ndim(x) != 2 or np.ndim(right) != 2:
        raise ValueError("a batch, and a block for each part")
    if x.shape[1] % len(right):
        raise ValueError(f"not divisible: {x.shape[1]} by {len(right)}")
    parts = x.reshape(len(x), len(right), -1)
    return (parts * right).sum(-1)


class Cut(Gradient):
    """A rule that cuts the last axis into the very parts which the function may broadcast."""

    def fit(self, signature: Signature, dtype: str) -> Any:
        subject = super().fit(signature, dtype)
        x, right = (np.zeros(leaf.shape) for leaf in signature.leaves)
        if x.shape[1] != right.size:
            message = f"shape {[-1, *right.shape]} is invalid for input of size {x.size}"
            raise RuleError("shape", message)
        return subject


def test_an_axis_is_as_long_as_the_parts_into_which_a_rule_cuts_it() -> None:
    found = rich(Cut(blocks))
    assert found["x"][1] == found["right"][0] * found["right"][1]
    assert min(found["right"]) > 1


def test_named_axes_of_a_clue_are_believed() -> None:
    clues = {"x": [Clue("the docstring", "f32[b d]")], "w": [Clue("the docstring", "f32[d]")]}
    subject = explored(Gradient(lambda x, w: x * w), clues).subject
    assert subject is not None
    assert shapes(subject)["w"] == shapes(subject)["x"][1:]
    assert subject.leaves[0].source == "the docstring"


def test_a_kernel_is_short_by_the_names_of_its_axes() -> None:
    clues = {"x": [Clue("a docstring", "f32[b h w c]")], "k": [Clue("a docstring", "f32[kh kw]")]}
    subject = explored(Gradient(lambda x, k: x.sum() * k), clues).subject
    assert subject is not None
    assert shapes(subject)["k"] == (3, 2)
    assert min(shapes(subject)["x"][1:3]) > 2


def test_a_function_that_nothing_fits_is_given_up() -> None:
    def refuse(x):
        raise ValueError("no")

    gradient = Gradient(refuse)
    assert explored(gradient).subject is None
    assert len(gradient.asked) < 20


def test_integers_repeat_and_leave_one_out() -> None:
    def picked(x, ids):
        if np.ndim(ids) != 1 or np.ndim(x) != 2:
            raise ValueError("a table and its rows")
        return x[ids]

    subject = explored(Gradient(picked), ids=integers((3,), "test")).subject
    assert subject is not None
    numbers = list(fixed(subject.signature)["ids"])
    assert len(set(numbers)) < len(numbers)
    assert max(numbers) == 2
    assert 1 not in numbers


def test_sorted_integers_are_sorted() -> None:
    class Sorted(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            ids = fixed(signature)["ids"]
            if ids.ndim and (np.diff(ids) < 0).any():
                raise Rejected("segment ids are not increasing")
            return super().fit(signature, dtype)

    subject = explored(Sorted(lambda x, ids: x + 0 * ids.sum()), ids=integers((3,), "t")).subject
    assert subject is not None
    assert (np.diff(fixed(subject.signature)["ids"]) >= 0).all()


def test_labels_that_may_be_fewer_than_the_rows_are_as_many() -> None:
    def gathered(x, labels):
        if np.ndim(labels) != 1 or np.ndim(x) != 2 or len(labels) > len(x):
            raise ValueError(
                f"expected index {np.shape(labels)} to be no larger than {np.shape(x)}"
            )
        return x[np.arange(len(labels)), labels]

    subject = explored(Gradient(gathered), labels=integers((3,), "test")).subject
    assert subject is not None
    assert len(fixed(subject.signature)["labels"]) == subject.leaves[0].shape[0]


def test_heads_that_share_keys_are_twice_as_many() -> None:
    def grouped(q, k):
        if np.ndim(q) != 2 or np.ndim(k) != 2:
            raise ValueError("heads and their sizes")
        return q * np.repeat(k, len(q) // len(k), axis=0)

    found = rich(Gradient(grouped))
    assert found["q"][0] == 2 * found["k"][0]


def test_what_a_source_calls_the_same_in_both_is_not_doubled_in_one() -> None:
    def pooled(x, scores):
        return x.reshape(len(scores), -1).sum(1) * scores[:, 0]

    clues = {"x": [Clue("test", "f32[n d]")], "scores": [Clue("test", "f32[n h]")]}
    taken = explored(Gradient(pooled), clues).subject
    assert taken is not None
    assert shapes(taken)["x"][0] == shapes(taken)["scores"][0]
    assert rich(Gradient(pooled))["x"][0] == 2 * rich(Gradient(pooled))["scores"][0]


def test_arrays_stay_small_while_they_are_explored() -> None:
    def halved(x):
        if np.ndim(x) != 4 or any(n % 12 for n in np.shape(x)):
            raise ValueError("it does not divide into equal parts")
        return x

    gradient = Gradient(halved)
    explored(gradient)
    assert max(np.prod(s.leaves[0].shape) for s in gradient.asked) <= 1 << 22


def test_four_groups_hold_more_than_one_channel_each() -> None:
    def groups(x, scale):
        n, length, channels = x.shape
        parts = x.reshape(n, length, 4, channels // 4)
        return (parts - parts.mean((1, 3), keepdims=True)).reshape(x.shape) * scale

    clues = {"x": [Clue("test", "f32[n l c]")], "scale": [Clue("test", "f32[c]")]}
    subject = explored(Gradient(groups), clues).subject
    assert subject is not None
    assert shapes(subject)["x"][-1] == 8


def test_sizes_of_a_call_are_tried_where_nothing_else_is_taken() -> None:
    def crossed(x, y):
        if np.shape(x) != (5, 3):
            raise ValueError("these points are no points")
        return np.cross(x, y)

    clues = {name: [Clue("the call", "f32[d5 d3]")] for name in ("x", "y")}
    subject = explored(Gradient(crossed), clues).subject
    assert subject is not None
    assert shapes(subject)["x"] == (5, 3)


def test_sizes_differ_from_those_that_a_source_states() -> None:
    clues = {
        "q": [Clue("the docstring", spec="f32[n 4]")],
        "p": [Clue("the docstring", spec="f32[b m 3]")],
    }
    subject = explored(Gradient(lambda q, p: q.sum() + p), clues).subject
    assert subject is not None
    found = shapes(subject)
    assert not {found["q"][0], *found["p"][:2]} & {3, 4}


def test_the_width_of_heads_is_no_other_size() -> None:
    clues = {n: [Clue("the docstring", spec=f"f32[{s}]")] for n, s in {
        "q": "b h t d", "k": "b h s d", "v": "b h s d"}.items()}  # fmt: skip
    subject = explored(Gradient(lambda q, k, v: (q @ np.swapaxes(k, -1, -2)) @ v), clues).subject
    assert subject is not None
    assert shapes(subject)["q"][-1] not in (*shapes(subject)["q"][:3], *shapes(subject)["k"][:3])


def test_ranks_that_the_rule_suggests_are_tried_before_others() -> None:
    names = ("a", "b", "c", "d")

    class Numbers(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            if any(leaf.shape for leaf in signature.leaves if leaf.path in names):
                raise RuleError("shape", "the gradients are single numbers")
            return subject

    clues = {name: [Clue("the body", likely_rank=0)] for name in names}
    subject = explored(Numbers(lambda x, a, b, c, d: a * x**2 + b * x + c - d), clues).subject
    assert subject is not None
    assert shapes(subject)["a"] == ()


def test_queries_keys_and_values_of_one_shape_are_long_enough_for_a_window() -> None:
    clues = {n: [Clue("the docstring", spec="f32[b h t d]")] for n in ("q", "k", "v")}
    subject = explored(Gradient(lambda q, k, v: (q @ np.swapaxes(k, -1, -2)) @ v), clues).subject
    assert subject is not None
    assert shapes(subject)["q"] == (2, 2, 4, 3)


def test_a_window_that_is_spread_reaches_far() -> None:
    def spread(x, w, dilation=2):
        count = len(x) - dilation * (len(w) - 1)
        if count < 1:
            raise ValueError("too short")
        return sum(w[i] * x[i * dilation : i * dilation + count] for i in range(len(w)))

    gradient = Gradient(spread)
    signature = Signature((("x", Leaf("x", (3,), "t")), ("w", Leaf("w", (3,), "t")), ("dilation", Fixed(2, "2", "t"))))  # fmt: skip
    clues = {"x": [Clue("the docstring", spec="f32[n]")], "w": [Clue("the docstring", spec="f32[k]")]}  # fmt: skip
    found = Explorer(gradient, "float32", template(signature, clues, [])).explored().subject
    assert found is not None
    assert shapes(found)["x"][0] > 2 * (shapes(found)["w"][0] - 1)


def test_axes_of_two_are_taken_where_three_are_too_many() -> None:
    def turned(x: Any, positions: Any) -> Any:
        if np.ndim(x) != 4 or np.shape(positions) != np.shape(x)[:2] or np.shape(x)[3] % 2:
            raise TypeError(f"shapes {np.shape(x)} and {np.shape(positions)} do not fit")
        return x * np.asarray(positions)[:, :, None, None]

    clues = {
        "x": [Clue("a docstring", "f32[B T H 2*D]")],
        "positions": [Clue("a docstring", "i32[B T]")],
    }
    subject = explored(Gradient(turned), clues, positions=integers((3,), "test")).subject
    assert subject is not None
    assert shapes(subject)["x"] == (2, 4, 3, 10)


def test_where_no_sizes_are_few_numbers_the_fewest_are_taken() -> None:
    clues = {name: [Clue("a docstring", "f32[B T 2*H 2*R+E]")] for name in "qk"}
    clues["table"] = [Clue("a docstring", "f32[L R]")]
    subject = explored(Gradient(lambda q, k, table: q * k), clues).subject
    assert subject is not None
    q = shapes(subject)["q"]
    assert q[2] % 2 == 0 and q[3] > 4
    assert 2 * np.prod(q) <= 640


def test_a_rule_may_count_on_a_number_of_the_call() -> None:
    class Rule(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            if signature.leaves[0].shape[-1] != 7:
                raise RuleError("shape", "cannot reshape array into shape (7, -1)")
            return subject

    count = Fixed(7, "7", "test")
    found = rich(Rule(lambda x, heads: x), heads=count)
    assert found["x"][-1] == 7


def fixed_to(got: tuple[int, ...]) -> Any:
    """A rule whose gradient is of one shape, whatever it is given."""

    class Rule(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            shape = list(signature.leaves[0].shape)
            if shape != list(got):
                message = f"the gradient of x has the shape {list(got)}, its argument {shape}"
                raise RuleError("shape", message, silent=True)
            return subject

    return Rule


def test_a_rule_of_one_shape_gets_that() -> None:
    found = explored(fixed_to((10, 18))(lambda x: x))
    assert found.subject is not None
    assert shapes(found.subject)["x"] == (10, 18)
    assert not found.refused, "it is made for that shape"


def shifted(image, centre):
    if np.ndim(image) != 3 or np.ndim(centre) < 1 or len(centre) < 2:
        raise ValueError("a batch of images and a place")
    return image * centre.ravel()[0]


def with_centre_of(of: Any) -> Any:
    """A rule that returns an array of this shape for `centre`, which hangs on the image's shape."""

    class Rule(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            image, centre = (list(leaf.shape) for leaf in signature.leaves)
            if of(image) != centre:
                message = f"the gradient of centre has the shape {of(image)}, its argument {centre}"
                raise RuleError("shape", message, silent=True)
            return subject

    return Rule


def test_a_pair_is_a_pair_though_another_axis_has_two_as_well() -> None:
    clues = {"image": [Clue("a docstring", "f32[batch height width]")]}
    found = explored(with_centre_of(lambda image: [2])(shifted), clues)
    assert found.subject is not None
    sizes = shapes(found.subject)
    assert sizes["centre"] == (2,)
    assert 2 not in sizes["image"], "or the pair may be as long as the batch"


@pytest.mark.parametrize("of", [lambda image: [image[0]], lambda image: []])
def test_what_hangs_on_the_batch_or_is_summed_over_all_is_no_pair(of: Any) -> None:
    clues = {
        "image": [Clue("a docstring", "f32[batch height width]")],
        "centre": [Clue("a docstring", "f32[places]")],
    }
    found = explored(with_centre_of(of)(shifted), clues)
    assert found.subject is None or shapes(found.subject)["centre"] != (2,)


def test_the_axes_of_a_grid_have_sizes_of_their_own_beside_coordinates_of_three() -> None:
    def looked_up(grid, coords):
        if np.ndim(grid) != 4 or np.ndim(coords) != 2 or np.shape(coords)[1] != 3:
            raise ValueError(f"coords must have shape (n, 3), not {np.shape(coords)}")
        return np.zeros((len(coords), grid.shape[3]))

    clues = {
        "grid": [Clue("a docstring", "f32[d h w c]")],
        "coords": [Clue("a docstring", "f32[n 3]")],
    }
    found = explored(Gradient(looked_up), clues)
    assert found.subject is not None
    assert len(set(shapes(found.subject)["grid"])) == 4


def test_axes_that_the_rule_tells_one_after_the_other() -> None:
    """A projection of points by a matrix of three rows and columns, whose rule reads the first two of each."""

    class Rule(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            matrix, points = (list(leaf.shape) for leaf in signature.leaves)
            returned = ([3, matrix[1]], matrix), ([*points[:-1], 2], points)
            for got, wanted in returned:
                if got != wanted:
                    message = f"the gradient of it has the shape {got}, its argument {wanted}"
                    raise RuleError("shape", message)
            return subject

    def projected(matrix, points):
        if (np.ndim(matrix), np.ndim(points)) != (2, 2):
            raise ValueError("a matrix and points")
        along = np.concatenate([points, np.ones_like(points[:, :1])], axis=-1) @ matrix.T
        return along[:, :2] / along[:, 2:]

    found = explored(Rule(projected))
    assert found.subject is not None
    sizes = shapes(found.subject)
    assert sizes["matrix"] == (3, 3)
    assert sizes["points"][-1] == 2


def test_a_shape_of_other_sizes_of_the_call_is_none_that_it_is_made_for() -> None:
    class Turned(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            shape = list(signature.leaves[0].shape)
            if shape != shape[::-1]:
                raise RuleError(
                    "shape", f"the gradient of x has the shape {shape[::-1]}, its argument {shape}"
                )
            return subject

    assert explored(Turned(lambda x: x.T), {"x": [Clue("a docstring", "f32[n m]")]}).refused


def test_what_counts_rows_is_no_longer_than_they_are() -> None:
    def grouped(x, weights, sizes):
        if (np.ndim(x), np.ndim(weights), np.ndim(sizes)) != (2, 3, 1):
            raise ValueError("rows, a matrix for each group, sizes")
        return np.sum(x @ weights.sum(0))

    def beyond(signature: Signature) -> str:
        _, (rows, *_), (sizes,) = (leaf.shape for leaf in signature.leaves)
        return f"it reads beyond the {rows} rows of an array" if sizes > rows else ""

    found = rich(Gradient(grouped, reading=beyond))
    assert found["sizes"] == found["weights"][:1]


def test_arrays_have_as_many_axes_as_the_gradients_that_the_rule_returns() -> None:
    """Attention over batch and heads takes matrices by accident: its mask has two axes of one before them."""

    def attend(q, k, v):
        weight = np.swapaxes(k, -1, -2)
        return np.ones((1, 1, q.shape[-2], k.shape[-2])) * (q @ weight) @ v

    class OfHeads(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            shape = signature.leaves[0].shape
            if len(shape) != 4:
                returned = [1, 1, *shape]
                raise RuleError(
                    "shape",
                    f"the gradient of q has the shape {returned}, its argument {list(shape)}",
                )
            return subject

    found = rich(OfHeads(attend))
    assert {len(shape) for shape in found.values()} == {4}
    assert len({shape[:2] for shape in found.values()}) == 1, "they share batch and heads"


class WithAColumn(Gradient):
    """Its rule gives `tau` a gradient with an axis of one, a number for each row of `x`."""

    def fit(self, signature: Signature, dtype: str) -> Any:
        subject = super().fit(signature, dtype)
        x, tau = (leaf.shape for leaf in signature.leaves)
        if list(tau) != [x[0], 1]:
            message = f"the gradient of tau has the shape {[x[0], 1]}, its argument {list(tau)}"
            raise RuleError("shape", message)
        return subject


def test_a_row_that_lay_along_another_axis_is_a_column() -> None:
    def divided(x, tau):
        if np.ndim(x) != 2:
            raise ValueError("x has two axes")
        return x[:, 1:] / tau

    found = shapes(explored(WithAColumn(divided)).subject)
    assert found["tau"] == (found["x"][0], 1)


def test_a_gradient_with_an_axis_too_many_makes_no_column() -> None:
    def weighted(x, tau):
        if np.ndim(x) != 2:
            raise ValueError("x has two axes")
        return (x * tau.reshape(len(x), 1)).sum(0)

    assert explored(WithAColumn(weighted)).subject is None


def test_an_axis_may_be_as_long_as_what_is_closed_over() -> None:
    """None of the small sizes is that of the table, but the size with which it was found is."""
    sites = np.array([0, 0, 1, 1, 1])

    def shares(x: Any) -> Any:
        if x.shape != sites.shape:
            raise ValueError(f"operands could not be broadcast together with shapes {x.shape} (5,)")
        return x * sites

    clues = {"x": [Clue("test", "f32[d5]")]}
    subject = explored(Gradient(shares), clues).subject
    assert subject is not None
    assert shapes(subject) == {"x": (5,)}


@pytest.mark.parametrize("length", [5, 7, 11])
def test_an_axis_that_meets_what_is_closed_over_by_chance_is_not_free(length: int) -> None:
    """Explored sizes are primes, and what is closed over may be as long as one of them."""
    marks = tuple([1.0] * length)

    def weighted(x: Any) -> Any:
        if x.shape[1] != len(marks):
            raise ValueError(
                f"operands could not be broadcast together with shapes {x.shape} (1, {length}, 1)"
            )
        return x * np.array(marks)[:, None]

    class Rule(Gradient):
        def rule_code(self) -> list[Any]:
            return [weighted]

    subject = explored(Rule(weighted), {"x": [Clue("test", "f32[a b c]")]}).subject
    assert subject is not None
    assert shapes(subject)["x"][1] == length


def test_sizes_that_meet_what_is_closed_over_and_are_free_stay_as_they_were() -> None:
    """Where no other sizes are taken, those that were found are."""

    def lucky(x: Any) -> Any:
        if x.shape != (7, 5):
            raise ValueError("operands could not be broadcast together")
        return x * 7

    class Rule(Gradient):
        def rule_code(self) -> list[Any]:
            length = 7
            return [lambda g: g * length]

    subject = explored(Rule(lucky), {"x": [Clue("test", "f32[a b]")]}).subject
    assert subject is not None
    assert shapes(subject) == {"x": (7, 5)}


def test_a_mask_runs_along_three_at_least_where_it_may() -> None:
    """The usual sizes of four axes begin with two: one of these is kept, and a softmax of one is 1."""

    def mixed(hidden: Any, keep: Any) -> Any:
        if hidden.ndim != 4 or keep.shape != hidden.shape[:1]:
            raise ValueError(f"operands do not match: {hidden.shape} and {keep.shape}")
        return hidden[keep].sum(0)

    clues = {"hidden": [Clue("test", "f32[l b n d]")], "keep": [Clue("test", "bool[l]")]}
    keep = Fixed(np.ones(2, bool), "bool[2]", "test")
    subject = explored(Gradient(mixed), clues, keep=keep).subject
    assert subject is not None
    assert shapes(subject)["hidden"][0] == 3


def test_a_rule_may_be_made_for_sizes_that_its_refusals_tell() -> None:
    """What it refuses at other sizes says nothing then, if it closes over that size: a number in its text may be the fault."""
    layers = 36

    class OfLayers(Gradient):
        def rule_code(self) -> list[Any]:
            return [lambda g: g.reshape(layers)]

        def fit(self, signature: Signature, dtype: str) -> Any:
            subject = super().fit(signature, dtype)
            shape = signature.leaves[0].shape
            if shape != (36,):
                raise RuleError("rule", f"incompatible shapes for broadcasting: (36,), {shape}")
            return subject

    class OfANumber(OfLayers):
        def rule_code(self) -> list[Any]:
            return [lambda g: g.reshape(36)]

    assert explored(OfANumber(lambda x: np.cumsum(x.reshape(len(x))))).subject is None
    found = explored(OfLayers(lambda x: np.cumsum(x.reshape(len(x)))))
    assert found.subject is not None
    assert shapes(found.subject) == {"x": (36,)}
    assert not found.refused


def test_an_axis_that_a_count_alone_fits_is_there_by_chance() -> None:
    def resampled(series, strikes, n):
        series.T @ series  # a matrix
        phase = np.arange(n) / n
        times = strikes[:-1, None] * (1 - phase) + strikes[1:, None] * phase
        return np.sum(series) * times

    found = rich(Gradient(resampled), n=Fixed(3, "3", "test"))
    assert len(found["series"]) == 2
    assert len(found["strikes"]) == 1
