"""Each of the linter's pages fires on its example, and on nothing that it says to use instead."""

from __future__ import annotations

import re

import pytest

from gradcheck_cli.lint.linted import linted
from gradcheck_cli.lint.rulebook import form
from gradcheck_cli.project.rule_pages import Rule, rules

SOURCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATIC = [rule for rule in rules().values() if rule.is_static]


def named(rule: Rule) -> str:
    return rule.name


@pytest.mark.parametrize("rule", STATIC, ids=named)
def test_the_example_fires_and_what_to_use_instead_does_not(rule: Rule) -> None:
    bad, good = SOURCE.findall(rule.body)
    assert rule.name in {f.rule for f in linted(bad, "bad.py")}
    assert [f.rule for f in linted(good, "good.py")] == []


@pytest.mark.parametrize("rule", STATIC, ids=named)
def test_each_pattern_is_read_and_asks_for_what_there_is(rule: Rule) -> None:
    for text in rule.patterns:
        one = form(rule, text)
        names = {p.value for p in one.term.parts() if p.head == "name"}
        asked = set(re.findall(r"\((.*?)\)", one.condition))
        assert {n.strip() for group in asked for n in group.split(",")} <= names, text
