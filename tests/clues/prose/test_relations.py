"""Sizes that a text relates to each other."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text

ATTENTION = "q: (B, T, H, D)\nk: (B, S, G, D)\n"


def specs(text: str, *names: str) -> list[str]:
    found = read_text(Text("here", text, near=True), names)
    return [found[name].spec for name in names]


@pytest.mark.parametrize(
    "said",
    [
        "G divides H.",
        "The keys have G heads, with G dividing H.",
        "with `G` dividing nothing, but G must divide H",
        "H is a multiple of G",
        "``H`` must be a multiple of ``G``",
        "H divisible by G",
        "H % G == 0",
    ],
)
def test_heads_that_share_keys(said: str) -> None:
    assert specs(ATTENTION + said, "q", "k") == ["f32[B T 2*G D]", "f32[B S G D]"]


@pytest.mark.parametrize("said", ["T <= S", "S >= T;", "T < S", "``T`` ≤ ``S``"])
def test_a_longer_axis_is_the_shorter_one_and_a_rest(said: str) -> None:
    assert specs(f"{ATTENTION}{said}", "q", "k") == ["f32[B T H D]", "f32[B T+S_rest G D]"]


@pytest.mark.parametrize("said", ["lengths <= T", "T <= T", "T <= window", "x <= S", "T <= S <= B"])
def test_what_is_no_pair_of_axes_says_nothing_or_one_thing(said: str) -> None:
    first, second = specs(ATTENTION + said, "q", "k")
    assert first == "f32[B T H D]"
    assert second in ("f32[B S G D]", "f32[B T+S_rest G D]")


@pytest.mark.parametrize(
    "said", ["S >= 4", "``S`` ≥ 4", "4 <= S", "at least 4 S", "S >= 4, T >= 1"]
)
def test_a_size_that_is_not_below_a_number(said: str) -> None:
    assert specs(f"{ATTENTION}{said}", "q", "k") == ["f32[B T H D]", "f32[B S_rest+4 G D]"]


@pytest.mark.parametrize(
    "said", ["S >= 1", "at least 500 S", "S >= 4.5", "x >= 4", "at least 4 points"]
)
def test_what_bounds_no_size(said: str) -> None:
    assert specs(f"{ATTENTION}{said}", "q", "k") == ["f32[B T H D]", "f32[B S G D]"]


def test_an_axis_that_ends_a_range_stays() -> None:
    found = specs("x: (n, C)\nids: (m,) int in [0, n)\nm <= n", "x", "ids")
    assert found == ["f32[n C]", "i32[m] in 0..n"]


def mates(text: str, *names: str) -> list[str]:
    found = read_text(Text("here", text, near=True), names)
    return [found[name].alike if name in found else "" for name in names]


@pytest.mark.parametrize(
    "said",
    [
        "lon and lat have the same shape.",
        "`lon` and `lat` must be of equal shapes",
        "lon & lat share a common shape;",
        "lon: any array. lat: an array of the same shape as lon",
    ],
)
def test_arrays_of_one_shape_that_the_text_does_not_say(said: str) -> None:
    assert mates(said, "lon", "lat")[1] == "lon"


@pytest.mark.parametrize(
    "said",
    [
        "lon and lat have the same shape up to broadcasting",
        "lon and lat have the same shape, or one is a single number",
        "lat: the same shape as lon or broadcastable to it",
        "lon: (n,), lat: (m,). lon and lat have the same dtype",
    ],
)
def test_shapes_that_may_differ(said: str) -> None:
    assert mates(said, "lon", "lat") == ["", ""]


def test_more_of_one_than_of_the_other() -> None:
    text = "`anchors` is (anchors, dim) with more anchors than\n dimensions, `w` is (anchors,) and positive."
    said = read_text(Text("here", text, near=True), ["anchors", "w"])
    assert said["anchors"].spec == "f32[dim+anchors_rest dim]"
    assert (said["w"].spec, said["w"].domain) == ("f32[dim+anchors_rest]", "> 0")


def test_no_more_of_one_than_of_the_other() -> None:
    text = "x: (rows, cols), with no more rows than cols"
    assert specs(text, "x") == ["f32[rows cols]"]


def test_all_that_is_listed_before_a_colon_has_one_shape() -> None:
    said = "int hits, bool seen, rate: one shape"
    assert mates(said, "hits", "seen", "rate")[1:] == ["hits", "hits"]
    assert mates("hits, rate: one shape as of seen", "hits", "seen", "rate")[2] != "hits"


@pytest.mark.parametrize(
    "said",
    [
        "Moves x along v, for a time dt: the same shape.",
        "Norm of x, scaled by dt, the same shape.",
        "x, v, dt: one shape in, one shape out.",
    ],
)
def test_a_sentence_with_commas_is_no_list(said: str) -> None:
    assert mates(said, "x", "v", "dt") == ["", "", ""]


def test_the_type_before_a_name_is_that_of_this_name() -> None:
    said = "float x (n,), int hits (n,), bool seen (n,)"
    assert specs(said, "x", "hits", "seen") == ["f32[n]", "i32[n]", "bool[n]"]


@pytest.mark.parametrize(
    "text",
    [
        "x: (n, d), beta: scalar. Returns log(1 + exp(beta x)) / beta, (n, d).",
        "x: (n, d) and a scalar beta. Returns x / beta, (n, d).",
    ],
)
def test_the_shape_of_the_result_is_that_of_no_parameter(text: str) -> None:
    told = read_text(Text("here", text, near=True), ["x", "beta"])
    assert {name: clue.spec for name, clue in told.items()} == {"x": "f32[n d]", "beta": "f32[]"}


@pytest.mark.parametrize(
    "said",
    [
        "n = 2 ** stages",
        "n = 2^stages.",
        "n = 1 << stages",
        "stages = log2(n)",
    ],
)
def test_a_power_of_two_and_its_exponent_are_numbers(said: str) -> None:
    text = f"x: (..., n)\ntwiddle: (stages, n // 2, 2, 2), {said}"
    assert specs(text, "x", "twiddle") == ["f32[lead 8]", "f32[3 4 2 2]"]


def test_a_power_of_two_alone_is_a_number() -> None:
    assert specs("x: (batch, n), n a power of two", "x") == ["f32[batch 8]"]
    assert specs("x: (batch, n), scaled by a power of two", "x") == ["f32[batch n]"]


def test_an_expression_is_no_exponent_and_an_argument_has_its_own_numbers() -> None:
    assert specs("x: (n, levels), levels = 2 ** bits", "x") == ["f32[n levels]"]
    assert specs("x: (n, m), n = 2 ** m - 1", "x") == ["f32[n m]"]
    assert specs("x: (n, m), m = log2(n) + 1", "x") == ["f32[n m]"]
    assert specs("x: (n, n+1), n a power of two", "x") == ["f32[n n+1]"]
    assert specs("x: (b, n). If n is a power of two, it is fast.", "x") == ["f32[b n]"]
