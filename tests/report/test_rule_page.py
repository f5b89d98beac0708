"""Rule pages in a terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.intent_specs import FORMS, parse
from gradcheck_cli.project.rule_pages import Rule, find, rules
from gradcheck_cli.report.rule_page import family, intent, page

BODY = """# a title

## What it does

One paragraph
over two lines.

- an item that is
  long
- another

```python
def f(x):
    return x  # a line of code that is wider than any paragraph here
```
"""


def test_a_page_is_filled_and_code_stays_as_it_is() -> None:
    text = page(replace(find("gradient-mismatch"), body=BODY), 40)
    assert text.startswith("gradient-mismatch (CG101, error)\n\nWhat it does\n\nOne paragraph over two lines.\n")  # fmt: skip
    assert "- an item that is long\n- another\n" in text
    assert "    def f(x):\n        return x  # a line of code that is wider than any paragraph here\n" in text  # fmt: skip
    assert "```" not in text
    assert "# a title" not in text


@pytest.mark.parametrize("rule", list(rules().values()), ids=lambda rule: rule.name)
def test_every_page_fits_and_says_how_to_turn_it_off(rule: Rule) -> None:
    text = page(rule, 80)
    prose = [line for line in text.splitlines() if not line.startswith((" ", "|"))]
    assert all(len(line) <= 80 or " " not in line for line in prose)
    assert (f"--ignore {rule.name}" in text) is (rule.name != RuleName.INTERNAL_ERROR)


def test_a_family_lists_its_rules() -> None:
    contracts = [rule for rule in rules().values() if rule.family == "contracts"]
    text = family("contracts", contracts, 80)
    assert all(rule.name in text for rule in contracts)
    assert "--ignore contracts" in text


@pytest.mark.parametrize("name", FORMS)
def test_the_page_of_an_intent_can_be_written_as_it_stands(name: str) -> None:
    shown = intent(name, 80)
    (comment,) = (line for line in shown.splitlines() if line.startswith("    # cgcheck: "))
    (declared,) = parse(comment.removeprefix("    # cgcheck: "))
    assert declared.name == name
    assert max(map(len, shown.splitlines())) <= 80
