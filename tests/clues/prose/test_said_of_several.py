"""What a text says of several arguments at once, and of one by what it marks."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.inputs.clue import Clue


def read(text: str, *names: str) -> dict[str, Clue]:
    return read_text(Text("here", text, near=True), list(names))


def specs(text: str, *names: str) -> dict[str, str]:
    return {name: clue.spec for name, clue in read(text, *names).items()}


def test_what_is_said_behind_the_second_is_said_of_the_first() -> None:
    text = "kept (B, P) and skipped (B, N) are track ids, which may repeat; scores (B, V)."
    said = specs(text, "kept", "skipped", "scores")
    assert said == {"kept": "i32[B P]", "skipped": "i32[B N]", "scores": "f32[B V]"}


def test_so_many_of_one_first_word_are_all_of_them() -> None:
    names = ("resid", "log_sigma", "log_tau")
    assert specs("resid is (N,), the two logs are scalars.", *names)["log_tau"] == "f32[]"
    assert "log_tau" not in specs("resid is (N,), the three logs are scalars.", *names)


@pytest.mark.parametrize(
    "text",
    [
        "x (n, t) and live (n, t). Steps where live is False are skipped.",
        "live (n, t) is True where a step counts.",
        "live: (n, t) True for what counts",
        "Steps marked in live count.",
        "Steps flagged in ``live`` count.",
        "``live`` marks the steps that count.",
        "`live` flags real steps of each row.",
    ],
)
def test_what_is_true_or_false_is_a_mask(text: str) -> None:
    assert read(text, "x", "live")["live"].kind.value == "bools"


@pytest.mark.parametrize(
    "text",
    [
        "live (n, t), a share; keepdims=True keeps its axes",
        "live (n, t) is the share of what is true",
        "live: (n, t) of the steps; if strict is True all of them",
    ],
)
def test_what_is_not_is_none(text: str) -> None:
    assert read(text, "x", "live")["live"].kind.value != "bools"


@pytest.mark.parametrize(
    ("entry", "spec"),
    [
        ("matrix: [parts, 2, 2] transformation of each", "f32[parts 2 2]"),
        ("matrix: [pieces, 3] shift", "f32[pieces 3]"),
        ("matrix: [clamp, snap] how", None),
    ],
)
def test_square_brackets_that_lead_an_entry_hold_what_axes_go_along(
    entry: str, spec: str | None
) -> None:
    assert specs(f"Points.\n\n{entry}", "matrix").get("matrix") == spec


@pytest.mark.parametrize(
    ("entry", "spec"),
    [
        ("index: (P, 3) reciprocal vectors, 1/A", "f32[P 3]"),
        ("index: (P, 3) rows and columns", "i32[P 3]"),
    ],
)
def test_an_index_of_vectors_is_no_table(entry: str, spec: str) -> None:
    assert specs(f"Sums.\n\n{entry}", "index")["index"] == spec


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x: (n,) floats; the returned mask is True where x > 0", "x"),
        ("x: (n, d) float, True where padded in mask", "x"),
        ("x: (b,) number of steps; the mask is True for t < x", "x"),
        ("Dropped in the case where causal is True.", "causal"),
        ("Outliers flagged by threshold count once.", "threshold"),
        ("Rows marked in labels count.", "labels"),
        ("Here labels marks the classes that count.", "labels"),
        ("x: (n,). `x` marks the times of the spikes, in seconds.", "x"),
        ("x: (n,). `x` marks the boundaries of segments.", "x"),
        ("x: (n,). `x` marks thresholds of the bins.", "x"),
        ("x: (n,). `x` flags errors in the fit.", "x"),
        ("x: (n,). `x` marks quantiles to compute.", "x"),
    ],
)
def test_what_is_true_of_something_else_makes_no_mask(text: str, name: str) -> None:
    clue = read(text, name).get(name)
    assert clue is None or clue.kind.value != "bools"


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("x: (n,), expected numbers above zero.", "> 0"),
        ("x: (n,), above zero.", "> 0"),
        ("x: pre-activations; squares what lies above zero.", ""),
        ("x: input; slope one above zero", ""),
        ("x: temperatures, none above zero", ""),
        ("x: (n,) numbers, whose sum is above zero", ""),
    ],
)
def test_above_zero_is_said_of_the_numbers_themselves(text: str, domain: str) -> None:
    clue = read(text, "x").get("x")
    assert (clue.domain if clue else "") == domain


@pytest.mark.parametrize(
    "text",
    ["The distance between the two logits is non-negative.", "Cuts both logits into bool masks."],
)
def test_a_plural_inside_a_sentence_is_of_something_else(text: str) -> None:
    assert not read(text, "logits_a", "logits_b")


def test_a_plural_runs_over_brackets() -> None:
    said = specs("Sums. The two logs are arrays of shape (n, k).", "log_a", "log_b")
    assert said == {"log_a": "f32[n k]", "log_b": "f32[n k]"}


@pytest.mark.parametrize(
    "said",
    [
        "a dict with scalars floor, rise, centre and the shift",
        "Of the scalars: floor, rise and centre.",
        "with scalars `floor` and `rise`; scalars rise, centre",
    ],
)
def test_what_is_listed_behind_scalars_is_a_single_number_each(said: str) -> None:
    names = ["floor", "rise", "centre", "shift"]
    found = read_text(Text("here", said, near=True), names)
    assert {n: found[n].spec for n in found} == dict.fromkeys(names[:3], "f32[]")


@pytest.mark.parametrize(
    "said",
    [
        "arrays of scalars floor and rise",
        "scalars floor, rise of shape (n,)",
        "no scalars floor, rise",
    ],
)
def test_what_is_no_scalar_is_none(said: str) -> None:
    found = read_text(Text("here", said, near=True), ["floor", "rise"])
    assert all(clue.spec != "f32[]" for clue in found.values())
