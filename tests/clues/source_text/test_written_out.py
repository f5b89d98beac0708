"""Loops over words: what they read is read of each word."""

from __future__ import annotations

import ast
import textwrap

import numpy as np
import pytest

from gradcheck_cli.clues.source_text.written_out import written_out
from gradcheck_cli.clues.subscripts import keys_read
from tests.clues.source_text.libraries import read

NAMES = ("wide", "deep")


def of_a_table(table, age, species):
    a, k = (table[name][species] for name in ("asymptote", "rate"))
    return a * np.exp(-k * age)


def of_a_constant(params, x):
    total = 0.0
    for name in NAMES:
        total = total + params[name] * x
    return total


def of_pairs(params, x):
    return {key: params[key] * power for key, power in (("a", x), ("b", x * x))}


def until_found(params, x):
    for name in ("a", "b"):
        if name in params:
            break
    return params[name] * x


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        (of_a_table, {"table": ["asymptote", "rate"]}),
        (of_a_constant, {"params": ["wide", "deep"]}),
        (of_pairs, {"params": ["a", "b"]}),
        (until_found, {}),
    ],
)
def test_keys_that_a_loop_goes_over(function, keys) -> None:
    assert keys_read(function) == keys


def test_what_is_read_by_each_word_is_an_array_of_its_own() -> None:
    assert {"table['asymptote']", "table['rate']"} <= read(of_a_table).keys()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[f(k) for k in ('a', 'b')]", "(f('a'), f('b'))"),
        ("{k: p[k] for k in ['a']}", "{'a': p['a']}"),
        ("[[k + m for m in ('c',)] for k in ('a', 'b')]", "(('a' + 'c',), ('b' + 'c',))"),
        ("[f(n) for n in (1, 2)]", "[f(n) for n in (1, 2)]"),
        ("[f(k) for k in ('a', 'b') if k]", "[f(k) for k in ('a', 'b') if k]"),
        ("[f(k) for k in names]", "[f(k) for k in names]"),
        ("for k, v in (('a', x),):\n    y = f(k, v)", "y = f('a', x)"),
    ],
)
def test_the_turns_of_a_loop_stand_in_its_place(text: str, written: str) -> None:
    tree = written_out(ast.parse(textwrap.dedent(text)), {})
    assert ast.unparse(tree) == written


def test_a_lambda_in_a_loop_keeps_its_text() -> None:
    rules = {key: (lambda params, y: params["w"] * y) for key in ("a", "b")}
    assert keys_read(rules["a"]) == {"params": ["w"]}
    assert "params['w']" in read(rules["a"])
