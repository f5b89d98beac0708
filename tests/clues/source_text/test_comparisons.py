"""Comparisons with words, numbers and None."""

from __future__ import annotations

import math

from gradcheck_cli.inputs.clue import Kind
from tests.clues.source_text.libraries import fields, jnp, kinds, read, values

_REDUCTIONS = {"mean": 1, "sum": 2}


def test_words_that_a_parameter_is_compared_with_are_its_values() -> None:
    def function(x, reduction="mean"):
        if reduction == "mean":
            return x.mean()
        if reduction in ("sum", "total"):
            return x.sum()
        return x

    assert kinds(function) == {"reduction": "WORD"}
    assert values(function) == {"reduction": ("mean", "sum", "total")}


def test_words_that_raise_are_none_of_them() -> None:
    def function(x, mode, kind):
        if mode == "slow":
            raise NotImplementedError
        if mode not in ("same", "valid"):
            raise ValueError
        if kind != "a" and kind != "b":
            raise ValueError
        return x

    assert values(function) == {"mode": ("same", "valid"), "kind": ("a", "b")}


def test_cases_and_keys_are_words() -> None:
    def function(x, mode, name, other):
        match mode:
            case "up" | "down":
                return x
            case "never":
                raise ValueError
        return _REDUCTIONS[name] * {"p": x, "q": -x}[other]

    assert values(function) == {
        "mode": ("up", "down"),
        "name": ("mean", "sum"),
        "other": ("p", "q"),
    }


def test_branches_hang_on_flags() -> None:
    def function(x, causal, training=True, eps=0.0):
        if causal and not training:
            return x
        return -x if eps else x

    assert values(function) == {"causal": (True, False), "training": (True, False)}


def test_numbers_that_it_is_close_to_are_compared_with_too() -> None:
    def function(x, order=2.0, power=3.0, rate=0.5):
        order = float(order)

        def inner(x):
            if math.isclose(order, 1.0):
                return x
            if abs(power - 2.0) < 1e-6:
                return -x
            return x if abs(rate) < 1e-9 else x * rate

        return inner(x)

    assert values(function) == {"order": (2.0, 1.0), "power": (3.0, 2.0), "rate": (0.5, 0.0)}


def test_what_is_compared_with_none_may_be_none() -> None:
    def function(x, weight=None, bias=None):
        if weight is not None:
            x = x * weight
        if bias is None:
            bias = jnp.zeros(3)
        return x + bias[0]

    assert values(function) == {"weight": (None,), "bias": (None,)}
    assert read(function)["bias"].least_rank == 1


def test_numbers_that_a_branch_compares_with_are_values() -> None:
    def function(x, p=2, y=0.0):
        if p == 1:
            return abs(x)
        return jnp.where(y == 0, x, y)

    assert values(function) == {"p": (2, 1)}


def test_asserted_intervals_are_domains() -> None:
    def function(x, eps, rate, scale, p):
        assert eps > 0
        if not 0 <= rate < 1:
            raise ValueError
        if scale <= 0.5:
            raise ValueError
        if p < 0.0 or p > 1.0:
            raise ValueError
        return x

    assert fields(function, "domain") == {
        "eps": "> 0",
        "rate": "in [0, 1)",
        "scale": "> 0.5",
        "p": "in [0.0, 1.0]",
    }


def test_a_whole_number_that_has_to_divide_says_what() -> None:
    def function(x, groups, heads):
        n, c = x.shape
        if c % groups != 0:
            raise ValueError
        assert n % heads == 0, "heads"
        return x.reshape(n, groups, c // groups)

    found = read(function)
    assert (found["groups"].divides, found["heads"].divides) == (("c",), ("n",))
    assert found["groups"].values[0] == 2


def test_infinity_is_a_number_to_compare_with() -> None:
    def function(x, order):
        if order == jnp.inf:
            return x.max()
        return x.sum() if order == 1 else x.mean()

    assert values(function) == {"order": (float("inf"), 1)}


FIRST, TIE = 0, 2


def test_constants_of_the_module_are_the_numbers_that_they_stand_for() -> None:
    def score(x, outcome):
        return jnp.where(outcome == FIRST, x, jnp.where(outcome == TIE, 0.0, -x))

    def score_bwd(residuals, g):
        return g, None

    assert read(score, score_bwd)["outcome"].domain == "in 0..3"


def test_a_default_that_is_the_only_word_leaves_another() -> None:
    def function(x, combine="mul"):
        return x * x if combine == "mul" else x + x

    assert values(function) == {"combine": ("mul", "other")}


def test_what_is_joined_bit_by_bit_is_a_mask_beside_a_comparison_or_between_slices() -> None:
    def function(x, valid, keep, seen, flags, seed, salt):
        both = valid[:, 1:] & keep[:, :-1]
        told = seen & (x > 0)
        return jnp.where(both & told, x, 0.0), flags & (1 << 3), seed ^ salt

    found = read(function)
    masks = {name for name, clue in found.items() if clue.kind is Kind.BOOLS}
    assert masks == {"valid", "keep", "seen"}
