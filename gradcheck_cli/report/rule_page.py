"""The page of a rule as a terminal shows it: paragraphs as wide as there is room, code as it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from gradcheck_cli.project.intent_specs import FORMS
from gradcheck_cli.project.rule_pages import Rule
from gradcheck_cli.project.suppressions import NEVER_IGNORED

_WIDEST = 100
_FENCE = "```"
_OTHERS = "What can be declared besides:"
_ITEM = re.compile(r"(?P<mark>[-*]|\d+\.)\s+")


def page(rule: Rule, width: int) -> str:
    """The whole page, and how to turn the rule off."""
    room = min(width, _WIDEST)
    head = f"{rule.name} ({rule.code}, {rule.severity})"
    body = "\n".join(_body(rule.body.splitlines(), room)).strip("\n")
    rest = [] if rule.name == NEVER_IGNORED else ["", *_how_to_turn_off(rule)]
    return "\n".join([head, "", body, *rest]) + "\n"


def family(name: str, rules: Sequence[Rule], width: int) -> str:
    """The rules of a family with what each finds."""
    room = min(width, _WIDEST)
    lines = [
        f"{name}: {len(rules)} rules; `--select {name}` and `--ignore {name}` mean all of them",
        "",
    ]
    return "\n".join([*lines, *listed(rules, room)]) + "\n"


def intent(name: str, width: int) -> str:
    """How an intent is declared, the law that it is held to, and what else can be declared."""
    form = FORMS[name]
    others = ", ".join(f"`{other}`" for other in FORMS if other != name)
    law = f"A rule so declared is held to this: {form.law}."
    rest = f"What does not hold is `broken-intent`, what explains nothing `unused-intent`. {_OTHERS} {others}."
    room = min(width, _WIDEST)
    return "\n".join(
        [
            f"{name} (an intent)",
            "",
            *_filled([law], room),
            "",
            "    # cgcheck: expect(" + form.example + ")",
            "",
            *_filled(
                ["At the definition of the function, at the end of its line or above it."], room
            ),
            *_filled([rest], room),
            "",
        ]
    )


def listed(rules: Sequence[Rule], room: int) -> Iterator[str]:
    """Each rule with what it finds."""
    indent = " " * 9
    for rule in rules:
        yield f"  {rule.code}  {rule.name} ({rule.severity})"
        yield from textwrap.wrap(
            rule.summary, room, initial_indent=indent, subsequent_indent=indent
        )


def _how_to_turn_off(rule: Rule) -> Iterator[str]:
    yield "How to turn it off"
    yield ""
    yield f"    --ignore {rule.name}"
    yield f"    # cgcheck: ignore[{rule.name}] -- why"


def _body(lines: Sequence[str], room: int) -> Iterator[str]:
    """Headings without their marks, code set in, paragraphs filled."""
    paragraph: list[str] = []
    is_code = False
    for line in (*lines, ""):
        if line.startswith(_FENCE):
            is_code = not is_code
            continue
        if not is_code and line.strip() and not line.startswith(("#", "|")):
            if paragraph and _ITEM.match(line):
                yield from _filled(paragraph, room)
                paragraph = []
            paragraph.append(line)
            continue
        yield from _filled(paragraph, room)
        paragraph = []
        if is_code:
            yield f"    {line}".rstrip()
        elif line.startswith("## "):
            yield line[3:]
        elif not line.startswith("# "):
            yield line


def _filled(paragraph: Sequence[str], room: int) -> list[str]:
    text = " ".join(line.strip() for line in paragraph)
    mark = _ITEM.match(text)
    indent = " " * (mark.end() if mark else 0)
    return textwrap.wrap(
        text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
