"""What names of parameters suggest."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.inputs.names import (
    counts_terms,
    fixed_by_name,
    is_data,
    is_guard,
    is_single,
    is_threshold,
    says_not_a_float,
    weighs_classes,
)


@pytest.mark.parametrize("name", ["is_desirable", "has_edge", "mask"])
def test_a_question_that_each_row_answers(name: str) -> None:
    first = fixed_by_name(name, (4, 3), None)[0]
    assert first.value.shape == (4, 3)
    assert first.value.dtype == np.bool_
    assert says_not_a_float(name)
    assert is_data(name)


def test_it_may_be_asked_of_the_whole_call() -> None:
    assert [f.value for f in fixed_by_name("is_sorted", (3,), None)][1:] == [False, True]
    assert [f.value for f in fixed_by_name("is_causal", (3,), None)][:2] == [False, True]


@pytest.mark.parametrize("name", ["tol", "rcond", "rel_tol"])
def test_tolerances_are_small(name: str) -> None:
    assert [f.value for f in fixed_by_name(name, (), None)] == [1e-6]


@pytest.mark.parametrize("name", ["island", "history", "hash_table", "flagged"])
def test_words_that_only_begin_alike(name: str) -> None:
    assert not is_data(name)
    assert fixed_by_name(name, (3,), None) == []


@pytest.mark.parametrize("name", ["num_terms", "n_nodes", "iterations", "max_iters"])
def test_how_many_terms_there_are(name: str) -> None:
    assert counts_terms(name)


@pytest.mark.parametrize("name", ["num_heads", "degree", "terms_of_use", "n"])
def test_other_counts_are_none_of_terms(name: str) -> None:
    assert not counts_terms(name)


@pytest.mark.parametrize(
    ("name", "single", "threshold"),
    [
        ("lam", True, False),
        ("weight_decay", True, False),
        ("noise_strength", True, False),
        ("nsigma", False, True),
        ("clip_value", False, True),
        ("std_clip", False, True),
        ("lambs", False, False),
        ("clipboard", False, False),
        ("sigma_points", False, False),
    ],
)
def test_single_numbers_and_thresholds(name: str, single: bool, threshold: bool) -> None:
    assert (is_single(name), is_threshold(name)) == (single, threshold)


def test_a_weight_beside_labels_weighs_classes() -> None:
    assert weighs_classes("weight", ["logits", "target", "weight"])
    assert weighs_classes("weights", ["scores", "weights", "class_labels"])
    assert not weighs_classes("weight", ["x", "weight", "mask"])
    assert not weighs_classes("bias", ["logits", "bias", "target"])
    assert not weighs_classes("weight", ["x", "weight", "target", "bias"])


def test_an_eps_is_small_and_then_one_that_shows_where_it_is_added() -> None:
    small, other = (f.value for f in fixed_by_name("eps", (), None))
    assert small < 1e-5
    assert other > 0.01
    assert is_guard("epsilon") and not is_guard("tol")
