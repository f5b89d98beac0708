"""Words of ours are explained where a page has them first, and nowhere else."""

from __future__ import annotations

from gradcheck_cli.report.text.first_words import FirstWords

LINE = "line 3 · evidence: certified · 516 probes in float32"


def test_a_word_is_explained_once() -> None:
    words = FirstWords()
    assert words.explain(LINE) == (
        "line 3 · evidence: certified (by proved error bounds) · 516 probes (inputs with a cotangent each) in float32"
    )
    assert words.explain(LINE) == LINE
    assert FirstWords().explain(LINE) != LINE


def test_a_word_and_what_belongs_to_it_stay_together() -> None:
    told = FirstWords().explain("evidence: certified at the shapes tried")
    assert told == "evidence: certified at the shapes tried (by proved error bounds)"


def test_what_stands_for_something_else_is_left_alone() -> None:
    assert FirstWords().explain("evidence: float64 · a kinky name") == "evidence: float64 · a kinky name"  # fmt: skip
