"""Inputs as text: what a jaxtyping user reads at sight, and errors that point into it."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.project.comments import parse as parse_comments
from gradcheck_cli.project.input_specs import (
    ArraySpec,
    Bounds,
    SpecError,
    TreeSpec,
    ValueSpec,
    parse,
)
from gradcheck_cli.project.settings import parse as parse_settings

F32 = format_of("float32")


def test_dimensions_are_equal_by_name_and_different_otherwise() -> None:
    specs = parse("logits=f32[b c], labels=i32[b] in 0..c, axis=-1, mode='mean'")
    logits, labels = specs["logits"], specs["labels"]
    assert isinstance(logits, ArraySpec)
    assert isinstance(labels, ArraySpec)
    assert len(set(logits.shape)) == 2
    assert labels.shape == logits.shape[:1]
    assert labels.bounds is not None
    assert labels.bounds.high == logits.shape[1] - 1
    assert specs["axis"] == ValueSpec(-1, "-1")
    assert specs["mode"] == ValueSpec("mean", "'mean'")


def test_counts_go_up_to_the_size_of_an_axis() -> None:
    x, lengths = parse("x=f32[b t], lengths=i32[b] in 1..t+1").values()
    assert isinstance(x, ArraySpec)
    assert isinstance(lengths, ArraySpec)
    assert lengths.bounds is not None
    assert lengths.bounds.wholes == (1, x.shape[1])
    with pytest.raises(SpecError, match=r"in 1\.\.n\+1"):
        parse("x=f32[b t], lengths=i32[b] in 1..t+2")


def test_trees_share_dimensions_with_the_rest() -> None:
    specs = parse("params={w1: f32[din dh], 'b 1': f32[dh]}, x=f32[b din], pair=(f32[b], 2,)")
    params, pair, x = specs["params"], specs["pair"], specs["x"]
    assert isinstance(params, TreeSpec)
    assert isinstance(pair, TreeSpec)
    assert isinstance(x, ArraySpec)
    (w_key, w), (b_key, b) = params.items
    assert (w_key, b_key, params.kind) == ("w1", "b 1", "dict")
    assert isinstance(w, ArraySpec)
    assert isinstance(b, ArraySpec)
    assert (w.shape[0], w.shape[1]) == (x.shape[1], b.shape[0])
    assert [key for key, _ in pair.items] == ["0", "1"]
    assert pair.items[1][1] == ValueSpec(2, "2")
    assert parse("shape=(3, 4)")["shape"] == ValueSpec((3, 4), "(3, 4)")


@pytest.mark.parametrize(
    ("text", "low", "high", "inside", "outside"),
    [
        ("x=f32[] in [-1, 1]", -1, 1, 1.0, 1.5),
        ("x=f32[] in (0, 1]", 0, 1, 1.0, 0.0),
        ("x=f32[] > 0", 0, np.inf, 3.0, 0.0),
        ("x: f32[] <= 2", -np.inf, 2, 2.0, 2.5),
    ],
)
def test_intervals(text: str, low: float, high: float, inside: float, outside: float) -> None:
    spec = parse(text)["x"]
    assert isinstance(spec, ArraySpec)
    assert spec.bounds is not None
    domain = Domain(spec.bounds)
    assert domain.has(np.array(inside), F32)
    assert not domain.has(np.array(outside), F32)
    moved = domain.into(np.array([-1e9, -1.0, 0.0, 0.5, 1e9]), F32)
    assert ((moved >= low) & (moved <= high)).all()


@pytest.mark.parametrize(
    "family",
    [
        "simplex",
        "sorted",
        "unit",
        "spd",
        "orthogonal",
        "symmetric",
        "lower",
        "upper",
        "binary",
        "signs",
    ],
)
def test_families_hold_what_they_promise(family: str) -> None:
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(size=(6, 3, 3)) * 100, np.zeros((1, 3, 3))])
    made = Domain(Bounds(family=family)).into(rows, F32)
    eye = np.eye(3)
    holds = {
        "simplex": lambda a: (a >= 0).all() and np.allclose(a.sum(-1), 1, atol=1e-6),
        "sorted": lambda a: (np.diff(a, axis=-1) >= 0).all(),
        "unit": lambda a: np.allclose((a * a).sum(-1), 1, atol=1e-6),
        "spd": lambda a: (np.linalg.eigvalsh(a) > 0.1).all(),
        "orthogonal": lambda a: np.allclose(a @ np.swapaxes(a, -1, -2), eye, atol=1e-5),
        "symmetric": lambda a: (a == np.swapaxes(a, -1, -2)).all(),
        "lower": lambda a: (np.triu(a, 1) == 0).all() and (np.einsum("...ii", a) > 0).all(),
        "upper": lambda a: (np.tril(a, -1) == 0).all() and (np.einsum("...ii", a) > 0).all(),
        "signs": lambda a: np.isin(a, (-1, 1)).all(),
        "binary": lambda a: np.isin(a, (0, 1)).all(),
    }
    assert holds[family](made)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x=f33[n]", "`f33` is no dtype"),
        ("x=f32[n", "neither an array"),
        ("x=f32[n] in [2, 1]", "the interval is empty"),
        ("x=f32[n] in 0..m", "no dimension is called `m`"),
        ("x=f32[n] in cube", "in one of positive"),
        ("x=f32[n], x=f32[m]", "given twice"),
        ("x=f32[-n]", "`-n` is no dimension"),
        ("x", "write `name=spec`"),
        ("x={w f32[n]}", "write `{key: spec}`"),
        ("x=(f32[n], f33[n])", "`f33` is no dtype"),
        ("x=(f32[n]", "neither an array"),
        ("x=f32[n, w=f32[d]", "not closed"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(text: str, said: str) -> None:
    with pytest.raises(SpecError, match="at `") as caught:
        parse(text)
    assert said in str(caught.value)


def test_a_bad_spec_is_reported_where_it_stands() -> None:
    (malformed,) = parse_comments(
        "\n\ndef f(p):  # cgcheck: p=f32[n] in simplest\n    ...\n"
    ).malformed
    assert malformed.line == 3
    assert "simplest" in f"{malformed.text} {malformed.problem}"
    with pytest.raises(SettingsError, match="the inputs of `entropy`"):
        parse_settings({"inputs": {"entropy": "p=f32[n"}}, "here")
