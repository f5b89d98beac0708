"""Domains for functions that have no value at most plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.infer.domains import at_home
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.signature import Built, Fixed, Leaf, Signature
from gradcheck_cli.project.input_specs import Bounds
from tests.infer.fitted import Gradient

F32 = format_of("float32")


def logarithm(x):
    with np.errstate(all="ignore"):
        return np.where(x > 0, np.log(np.abs(x) + 1e-9), np.nan)


def logdet(x):
    try:
        return 2 * np.log(np.diagonal(np.linalg.cholesky((x + x.T) / 2))).sum()
    except np.linalg.LinAlgError:
        return np.nan


def of_a_distribution(x):
    return x if abs(x.sum() - 1) < 1e-3 and (x >= 0).all() else np.full(x.shape, np.nan)


def home(function: Any, *leaves: Leaf, too_far: bool = False) -> Any:
    gradient = Gradient(function)
    subject = gradient.fit(Signature(tuple((leaf.path, leaf) for leaf in leaves)), "float32")
    rng = np.random.default_rng(5)
    points = [F32.round(rng.standard_normal((40, *leaf.shape))) for leaf in leaves]
    values, far = subject.primal_values(points), np.full(40, too_far)
    return subject, at_home(gradient, subject, points, values, F32, None, far)


@pytest.mark.parametrize(
    ("function", "shape", "family"),
    [(logarithm, (4,), "positive"), (logdet, (3, 3), "spd"), (of_a_distribution, (3,), "simplex")],
)
def test_the_widest_family_with_values_is_the_domain(
    function: Any, shape: tuple[int, ...], family: str
) -> None:
    _, there = home(function, Leaf("x", shape, "test"))
    (leaf,) = there.leaves
    assert leaf.domain is not None
    assert leaf.domain.bounds.family == family
    assert leaf.source == "it has no value at most plain numbers"


def test_one_argument_alone_is_moved_where_both_have_no_value() -> None:
    def mixed(x, s):
        return np.where((x < 0).any(), logarithm(s), np.nan)

    _, there = home(mixed, Leaf("x", (4,), "test"), Leaf("s", (4,), "test"))
    assert [leaf.domain is not None for leaf in there.leaves] == [False, True]


def test_a_function_with_values_stays_where_it_is() -> None:
    subject, there = home(lambda x: x * x, Leaf("x", (2,), "test"))
    assert there is subject


def test_a_declared_domain_is_not_moved() -> None:
    positive = Domain(Bounds(family="sorted", text="sorted"))
    subject, there = home(logarithm, Leaf("x", (2,), "test", domain=positive))
    assert there is subject


def test_lengths_begin_with_one_where_none_have_no_value() -> None:
    def mean(x, lengths):
        return np.full(3, np.nan) if (np.asarray(lengths) == 0).any() else x / lengths

    lengths = Fixed(np.array([2, 0, 1], np.int32), "i32[3]", "test")
    gradient = Gradient(mean)
    signature = Signature((("x", Leaf("x", (3,), "test")), ("lengths", lengths)))
    subject = gradient.fit(signature, "float32")
    points = [F32.round(np.random.default_rng(5).standard_normal((40, 3)))]
    there = at_home(gradient, subject, points, subject.primal_values(points), F32)
    assert dict(there.signature.arguments)["lengths"].value.tolist() == [2, 1, 1]


def test_what_has_no_value_over_the_reals_alone_gets_other_tables_and_no_family() -> None:
    def counted(x, lengths):
        return np.where(np.asarray(lengths) == 0, 0.0, x)

    lengths = Fixed(np.array([2, 0, 1], np.int32), "i32[3]", "test")
    leaf = Leaf("x", (3,), "test")
    gradient = Gradient(counted)
    points = [F32.round(np.random.default_rng(5).standard_normal((40, 3)))]
    outside = np.ones(40, bool)

    def there(*arguments):
        subject = gradient.fit(Signature(arguments), "float32")
        values = subject.primal_values(points)
        return subject, at_home(gradient, subject, points, values, F32, outside)

    _, moved = there(("x", leaf), ("lengths", lengths))
    assert dict(moved.signature.arguments)["lengths"].value.tolist() == [2, 1, 1]
    ones = Fixed(np.float32(1.0), "1.0", "test")
    subject, same = there(("x", leaf), ("lengths", ones))
    assert same is subject


def test_lengths_in_an_object_beside_a_domain() -> None:
    def mean(x, rows):
        return np.full(3, np.nan) if (np.asarray(rows[0]) == 0).any() else x / rows[0]

    lengths = Fixed(np.array([2, 0, 1], np.int32), "i32[3]", "test", path="rows.lengths")
    rows = Built("Rows", tuple, (lengths,), ("lengths",))
    domain = Domain(Bounds(low=0.0, text=">= 0"))
    signature = Signature((("x", Leaf("x", (3,), "test", domain=domain)), ("rows", rows)))
    gradient = Gradient(mean)
    subject = gradient.fit(signature, "float32")
    points = [F32.round(np.random.default_rng(5).uniform(0, 1, (40, 3)))]
    there = at_home(gradient, subject, points, subject.primal_values(points), F32)
    (held,) = dict(there.signature.arguments)["rows"].parts
    assert held.value.tolist() == [2, 1, 1]


def test_pairs_of_unlike_places_where_alike_ones_have_no_value() -> None:
    def springs(x, pairs):
        ends = np.asarray(pairs)
        return np.where((ends[:, 0] == ends[:, 1]).any(), np.nan, x)

    pairs = Fixed(np.array([[0, 0], [1, 2]], np.int32), "i32[2, 2]", "test")
    gradient = Gradient(springs)
    signature = Signature((("x", Leaf("x", (3,), "test")), ("pairs", pairs)))
    subject = gradient.fit(signature, "float32")
    points = [F32.round(np.random.default_rng(5).standard_normal((40, 3)))]
    there = at_home(gradient, subject, points, subject.primal_values(points), F32)
    table = dict(there.signature.arguments)["pairs"].value
    assert (table[:, 0] != table[:, 1]).all()


def test_two_tables_that_differ_everywhere_where_a_place_and_itself_have_no_direction() -> None:
    def directions(x, src, dst):
        with np.errstate(all="ignore"):
            apart = x[dst] - x[src]
            return (apart / np.abs(apart)).sum()

    src, dst = (Fixed(np.array(v), "i64[3]", "test") for v in ([3, 0, 3], [1, 0, 3]))
    signature = Signature((("x", Leaf("x", (4,), "test")), ("src", src), ("dst", dst)))
    gradient = Gradient(directions)
    subject = gradient.fit(signature, "float32")
    points = [F32.round(np.random.default_rng(5).standard_normal((40, 4)))]
    there = at_home(gradient, subject, points, subject.primal_values(points), F32)
    tables = dict(there.signature.arguments)
    assert (tables["src"].value != tables["dst"].value).all()


def test_lengths_that_are_full_where_short_ones_have_no_value() -> None:
    def aligned(x, frames):
        return np.where((np.asarray(frames) < 3).any(), np.nan, x)

    frames = Fixed(np.array([3, 1, 2], np.int32), "i32[3]", "test")
    gradient = Gradient(aligned)
    signature = Signature((("x", Leaf("x", (3,), "test")), ("frames", frames)))
    subject = gradient.fit(signature, "float32")
    points = [F32.round(np.random.default_rng(5).standard_normal((40, 3)))]
    there = at_home(gradient, subject, points, subject.primal_values(points), F32)
    assert dict(there.signature.arguments)["frames"].value.tolist() == [3, 3, 3]


def test_counts_that_leave_room_for_the_places_of_another_table() -> None:
    def scored(x, levels, counts):
        beyond = (np.asarray(levels) >= np.asarray(counts)).any() or (np.asarray(counts) < 1).any()
        return np.where(beyond, np.nan, x)

    levels = Fixed(np.array([[2, 0], [1, 1], [0, 0]], np.int32), "i32[3 2]", "test")
    counts = Fixed(np.array([0, 2], np.int32), "i32[2]", "test")
    gradient = Gradient(scored)
    signature = Signature((("x", Leaf("x", (3,), "test")), ("levels", levels), ("counts", counts)))
    subject = gradient.fit(signature, "float32")
    points = [F32.round(np.random.default_rng(5).standard_normal((40, 3)))]
    there = at_home(gradient, subject, points, subject.primal_values(points), F32)
    assert dict(there.signature.arguments)["counts"].value.tolist() == [3, 2]


def arrhenius(share, kelvin):
    with np.errstate(all="ignore"):
        return share / np.exp(1268 * (1 / 303 - 1 / np.float32(kelvin)), dtype=np.float32)


UNITS = Leaf("share", (4,), "test"), Leaf("kelvin", (4,), "test")


def test_an_argument_in_another_unit_than_the_rest_is_moved_alone() -> None:
    _, there = home(arrhenius, *UNITS, too_far=True)
    share, kelvin = there.leaves
    assert share.domain is None
    assert kelvin.domain is not None
    assert kelvin.domain.text == "in [100, 1000]"


def test_where_the_reals_have_numbers_the_floats_are_told_of() -> None:
    subject, there = home(arrhenius, *UNITS)
    assert there is subject


def test_what_somebody_bounds_stays_within() -> None:
    bounded = Domain(Bounds(0, 1, text="in [0, 1]"))
    _, there = home(
        arrhenius, Leaf("share", (4,), "test"), Leaf("kelvin", (4,), "test", domain=bounded)
    )
    assert there.leaves[1].domain == bounded
