"""Hints from a function's own text."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.clues.reading import read
from gradcheck_cli.inputs.clue import Clue, Kind
from tests.infer.fitted import parameters_of

WEIGHT = np.ones((5, 7))


def function(x, y, params, n: int):
    """Adds.

    Args:
        x: array of shape (a, b)
        y: labels of shape [n]
    """
    first, second = params
    return x @ WEIGHT + params["w"] + first + second


function.__annotations__["x"] = 'Float[Array, "n k"]'  # as jaxtyping has it


def shared(current, flash):
    """`current` (N,) is signed; `flash` (N,) holds the flash number of each stroke."""
    return np.bincount(flash, current)[flash]


def test_what_has_a_stated_shape_and_no_type_holds_what_the_body_takes() -> None:
    given = read(shared, parameters_of(shared), [], lambda: "a key")
    first = {name: clues[0] for name, clues in given.clues.items()}
    assert (first["current"].spec, first["current"].kind) == ("f32[N]", Kind.ARRAY)
    assert (first["flash"].spec, first["flash"].kind) == ("i32[N]", Kind.INTEGERS)


def hints() -> Any:
    return read(function, parameters_of(function), [("tanh", np.tanh)], lambda: "a key")


def test_annotations_come_before_docstrings_and_share_dimensions() -> None:
    guesses = hints().guesses
    (x, x_source), (y, y_source) = guesses["x"], guesses["y"]
    assert x_source == 'its annotation `Float[Array, "n k"]`'
    assert y_source == "the docstring `y: shape [n]`"
    assert x.shape[0] == y.shape[0]
    assert guesses["n"][0].value == 3


def test_a_domain_in_words_is_one_of_the_parameter() -> None:
    def surprise(p, x):
        """-log p for p > 0, and x > 0.

        Args:
            p: probabilities of shape (n,)
        """

    found = read(surprise, parameters_of(surprise), [])
    assert found.domains["p"].text == "in [0, 1]"
    assert found.domains["p"].source.startswith("the docstring")
    assert found.guesses["p"][0].bounds.high == 1
    assert [clue.domain for clue in found.clues["p"]] == ["in [0, 1]"]


def test_calls_come_after_docstrings_and_take_over_their_names() -> None:
    def scaled(x, w):
        """x of shape (batch, dim) times w."""

    called = {
        name: Clue("the call", spec=spec, kind=Kind.ARRAY)
        for name, spec in {"x": "f32[d4 d8]", "w": "f32[d8]"}.items()
    }
    found = read(scaled, parameters_of(scaled), [], called=called)
    assert found.guesses["x"][0].shape[1:] == found.guesses["w"][0].shape
    assert found.clues["w"][-1].spec == "f32[dim]"


def test_dimensions_that_do_not_fit_together_are_read_alone() -> None:
    def clash(x: object, y: object) -> None: ...

    clash.__annotations__ = {"x": "Float[Array, 'n']", "y": "Float[Array, '1-5']"}
    assert set(read(clash, parameters_of(clash), []).guesses) == {"x"}


def test_the_body_and_what_it_refers_to_are_read() -> None:
    read_from = hints()
    assert (read_from.keys, read_from.unpacked) == ({"params": ["w"]}, {"params": 2})
    assert read_from.sizes == [5, 7]
    assert read_from.functions == [("tanh", np.tanh)]
    assert read_from.make_key() == "a key"


def test_texts_that_are_no_specs_give_no_guess() -> None:
    def reserved(x):
        """Args:
        x: array of shape (1_, 2)
        """

    assert read(reserved, parameters_of(reserved), []).guesses == {}


def test_the_body_and_the_rule_give_clues() -> None:
    def product(x, y):
        return x @ y

    def product_bwd(residuals, g):
        return g[:, 0]

    def product_jvp(primals, tangents):
        x, y = primals
        _n, _k = x.shape
        return x @ y, tangents[0]

    clues = read(product, parameters_of(product), [], rule=[product_bwd, product_jvp]).clues
    assert [clue.rank for clue in clues["x"]] == [2]


def test_what_the_body_counts_with_is_no_array() -> None:
    def pool(x, kernel):
        """Pool windows.

        Args:
            x: (h, w)
            kernel: (kh, kw)
        """
        return [x[i] for i in range(kernel[0]) for _ in range(kernel[1])]

    found = read(pool, parameters_of(pool), [])
    assert [clue.kind for clue in found.clues["kernel"]] == [Kind.SHAPE, Kind.ARRAY]


def cell(state: Any, x: Any) -> Any:
    """One step.

    Args:
        state: (h, c)
        x: (batch, dim)
    """
    h, c = state
    return h * c + x


def test_names_of_what_an_argument_is_unpacked_into_are_no_axes() -> None:
    hints = read(cell, parameters_of(cell), [])
    assert hints.unpacked["state"] == 2
    assert "state" not in hints.guesses
    assert "x" in hints.guesses


def _resized(x, height, width):
    return x


def _of_size(x, size):
    return _resized(x, *size)


def test_what_stands_behind_a_star_is_the_rest_of_the_parameters() -> None:
    from gradcheck_cli.clues.subscripts import unpacked

    assert unpacked([_of_size]) == {"size": ["height", "width"]}


def test_grids_that_the_body_searches_and_edges_are_ordered() -> None:
    def between(x, knots, edges, y):
        return np.interp(x, knots, np.diff(edges)) + np.diff(y).sum()

    domains = read(between, parameters_of(between), []).domains
    assert {name: domain.bounds.text for name, domain in domains.items()} == {
        "knots": "increasing",
        "edges": "increasing",
    }


def ordered(x):
    """x: array of shape (d, e)"""
    first, second = x.shape
    return np.einsum("ij->i", x) * first * second


def test_sources_stand_in_the_order_that_the_page_of_inputs_gives_them() -> None:
    """Annotations, docstrings, calls elsewhere, the body; comments and recordings come before all of it."""

    def body_alone(x):
        first, second = x.shape
        return x * first * second

    call = {"x": Clue("the call `ordered(x)`", "f32[f g]", kind=Kind.ARRAY)}

    def specs(function: Any, **given: Any) -> list[str]:
        found = read(function, parameters_of(function), [], lambda: "a key", **given)
        return [clue.source.split(" `")[0] for clue in found.clues["x"] if clue.spec]

    assert specs(body_alone) == ["the body"]
    assert specs(body_alone, called=call) == ["the call", "the body"]
    assert specs(ordered, called=call)[:2] == ["the docstring", "the call"]
    ordered.__annotations__["x"] = 'Float[Array, "a b"]'
    assert specs(ordered, called=call)[:3] == ["its annotation", "the docstring", "the call"]


def picked(scores, slots):
    """Scores of slots.

    scores: (batch, choices)
    slots: (batch,), one for each row
    """
    return scores[np.arange(scores.shape[0]), slots]


def test_what_a_text_gives_a_shape_alone_is_a_guess_of_integers_where_the_body_takes_these() -> (
    None
):
    slots, _ = read(picked, parameters_of(picked), []).guesses["slots"]
    assert (slots.kind, len(slots.shape)) == ("int", 1)


def test_a_call_with_a_number_is_not_meant_where_the_body_takes_an_axis() -> None:
    def ordered(x):
        return np.cumsum(x) / x.shape[0]

    def plain(x):
        return np.exp(x)

    called = {"x": Clue("the call `f(value / 2)` in line 3", "f32[]", rank=0, kind=Kind.NUMBER)}
    for function, sources in ((ordered, []), (plain, ["the call `f(value / 2)` in line 3"])):
        clues = read(function, parameters_of(function), [], called=called).clues["x"]
        assert [clue.source for clue in clues if clue.spec == "f32[]"] == sources


def test_a_call_with_truth_values_is_believed_before_a_text_that_says_bool() -> None:
    def total(x, counted):
        """Args:
        counted: bool
        """
        return x.sum()

    one = Clue("the call `f(x, mask)` in line 3", "bool[b n]", rank=2, kind=Kind.BOOLS)
    for called, kind in (({}, Kind.FLAG), ({"counted": one}, Kind.BOOLS)):
        clues = read(total, parameters_of(total), [], called=called).clues["counted"]
        assert clues[0].kind is kind


def test_what_the_body_chooses_by_is_a_mask() -> None:
    def total(levels, seen):
        """levels, seen: (B, F)."""
        return np.where(seen, levels, 0.0).sum(-1)

    def masked(kept, g):
        seen = kept[1]
        return np.where(seen, g[:, None], 0.0), None

    def of_floats(kept, g):
        levels, seen = kept[0], kept[1]
        return np.where(seen, g[:, None], 0.0), levels

    for rule, spec, kind in (
        (masked, "bool[B F]", Kind.BOOLS),
        (of_floats, "f32[B F]", Kind.ARRAY),
    ):
        hints = read(total, parameters_of(total), [], rule=[rule])
        first = {n: c[0] for n, c in hints.clues.items()}
        assert (first["levels"].spec, first["levels"].kind) == ("f32[B F]", Kind.ARRAY)
        assert (first["seen"].spec, first["seen"].kind) == (spec, kind)
