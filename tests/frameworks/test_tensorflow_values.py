"""Values and gradients at many points come from one graph, and are those of single calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.frameworks.shared.eager_subject import EagerSubject
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.results import Place

pytestmark = [pytest.mark.slow, pytest.mark.needs("tensorflow")]  # imports the framework


def subject(body: Callable[[Any], Any], shape: tuple[int, ...]) -> Any:
    """A function with its own gradient, in float64."""
    import tensorflow as tf

    from gradcheck_cli.frameworks.tensorflow.fit import fit
    from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, TfGradient

    def split(x: Any) -> tuple[Any, Any]:
        return body(x), lambda dy: dy * tf.ones_like(x)

    gradient = TfGradient(
        name="f", kind=CUSTOM, place=Place(__file__, 1, "f"), primal=body,
        rule=tf.custom_gradient(split), split=split, own=lambda path: path == __file__, fitter=fit,
    )  # fmt: skip
    return fit(gradient, Signature((("x", Leaf("x", shape, "test")),)), "float64")


def matrices(singular: list[int]) -> Any:
    found = np.random.default_rng(5).normal(size=(100, 2, 2))
    found[singular] = [[1.0, 2.0], [2.0, 4.0]]
    return found


def test_rows_at_which_the_body_raises_have_no_value_and_the_others_keep_theirs() -> None:
    import tensorflow as tf

    f = subject(tf.linalg.inv, (2, 2))
    points = [matrices([3, 4, 71])]
    (values,) = f.primal_values(points)
    (alone,) = EagerSubject.primal_values(f, points)
    assert f.values  # it went through the graph
    assert np.isnan(alone[[3, 4, 71]]).all()
    np.testing.assert_array_equal(values, alone)


def test_a_body_that_does_not_go_into_a_graph_is_run_row_by_row() -> None:
    import tensorflow as tf

    f = subject(lambda x: tf.constant(np.sinh(x.numpy())), (2,))
    x = np.linspace(-1, 1, 200).reshape(100, 2)
    (values,) = f.primal_values([x])
    assert f.values is False
    np.testing.assert_allclose(values, np.sinh(x))


def test_a_body_with_other_numbers_in_a_graph_is_run_row_by_row() -> None:
    import tensorflow as tf

    f = subject(lambda x: x * (2 if tf.executing_eagerly() else 3), (2,))
    x = np.linspace(-1, 1, 200).reshape(100, 2)
    (values,) = f.primal_values([x])
    assert f.values is False
    np.testing.assert_array_equal(values, 2 * x)


def rows(f: Any, points: Any) -> tuple[Any, Any]:
    """The floats of many rows, and those of each row alone."""
    weights = [np.linspace(1, 2, out.size).reshape(out.shape) for out in f.primal_values(points)]
    (whole,) = f.run(points, weights).values()
    kept, f.mapped_rows = f.mapped_rows, False
    (alone,) = f.run(points, weights).values()
    f.mapped_rows = kept
    return whole, alone


def test_rows_of_rule_and_autodiff_are_those_of_single_calls() -> None:
    import tensorflow as tf

    f = subject(lambda x: tf.reduce_sum(x * tf.sin(x[::-1]), keepdims=True), (3,))
    whole, alone = rows(f, [np.random.default_rng(3).normal(size=(90, 3))])
    assert f.mapped_rows  # they went through the graph
    for name in ("value", "rule_value", "custom", "auto"):
        np.testing.assert_array_equal(getattr(whole, name)[0], getattr(alone, name)[0])
    assert whole.refused is None


def test_rows_at_which_a_program_raises_are_named() -> None:
    import tensorflow as tf

    f = subject(lambda x: tf.reduce_sum(tf.linalg.inv(x), axis=0), (2, 2))
    whole, alone = rows(f, [matrices([3, 71])])
    assert f.mapped_rows
    np.testing.assert_array_equal(np.flatnonzero(whole.refused), [3, 71])
    np.testing.assert_array_equal(whole.refused, alone.refused)
    np.testing.assert_array_equal(whole.value[0], alone.value[0])
    np.testing.assert_array_equal(whole.auto[0], alone.auto[0])


def test_programs_with_other_numbers_in_a_graph_are_run_row_by_row() -> None:
    import tensorflow as tf

    f = subject(
        lambda x: tf.reduce_sum(x, keepdims=True) * (2 if tf.executing_eagerly() else 3), (2,)
    )
    x = np.linspace(-1, 1, 200).reshape(100, 2)
    whole, _ = rows(f, [x])
    assert f.mapped_rows is False
    np.testing.assert_array_equal(whole.value[0], 2 * x.sum(1, keepdims=True))
