"""Writes the pages that look things up, docs/look-up/: `python scripts/reference.py`."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import typer
from click import Context

from gradcheck_cli.cli.app import app
from gradcheck_cli.project.rule_pages import Rule, rules
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.testing.check_gradient import check_gradient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "look-up"
WIDTH = 78  # as many columns as a page of the site has room for
_EXAMPLE = (
    "Those that are tables name a custom gradient as a report does, or a pattern of paths:",
    "",
    "```toml",
    "[tool.cgcheck.inputs]",
    'scaled_norm = "x=f32[b n], scale=f32[n], eps=f32[] in [1e-8, 1e-3]"',
    "",
    "[tool.cgcheck.expects]",
    'quantize = "expect(straight-through)"',
    "",
    "[tool.cgcheck.references]",
    'FusedGelu = "my_package.plain:gelu"',
    "",
    "[tool.cgcheck.per-file-ignores]",
    '"legacy/*.py" = ["imprecise-gradient"]',
    "```",
    "",
    "The [JSON Schema of the settings](../settings.schema.json) lets an editor complete them.",
)
_FAMILIES = {
    "gradient": "Is the formula right?",
    "stability": "Do the floats follow?",
    "worth": "Is the rule needed?",
    "numerics": "Read off the source: is the expression stable?",
    "contracts": "Read off the source: is the rule attached and called as the framework wants?",
    "run": "Could it be checked?",
}


def pages() -> dict[str, str]:
    """Each page by the name of its file."""
    made = {
        "commands.md": commands(),
        "settings.md": settings(),
        "rules.md": all_rules(),
        "python.md": python(),
    }
    return {name: text.rstrip("\n") + "\n" + _foot() for name, text in made.items()}


def commands() -> str:
    """What `--help` says of every command, word for word."""
    lines = [_head("Commands"), "`cgcheck PATH…` is short for `cgcheck check PATH…`.", ""]
    group: Any = typer.main.get_command(app)
    context = Context(group, info_name="cgcheck", terminal_width=WIDTH, max_content_width=WIDTH)
    for name in sorted(group.commands, key=lambda each: (each != "check", each)):
        inner = Context(group.commands[name], info_name=name, parent=context, terminal_width=WIDTH)
        lines += [f"## {name}", "", "```text", _help(inner), "```", ""]
    return "\n".join(lines)


def _help(context: Context) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        text = context.command.get_help(context)
    return "\n".join(line.rstrip() for line in (printed.getvalue() + text).strip().splitlines())


def settings() -> str:
    """Every setting with its default, and what its flag or the schema says of it."""
    lines = [
        _head("Settings"),
        "In `pyproject.toml`, under `[tool.cgcheck]`. Most are flags, too, and a flag is the stronger one. Unknown keys are",
        "refused. `cgcheck PATH --show-settings` prints those that would hold; their JSON Schema is in the package.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    told = {**_words_of_flags(), **_words_of_schema()}
    for field in msgspec.structs.fields(Settings):
        default = _shown(getattr(Settings(), field.name))
        lines.append(f"| `{field.encode_name}` | `{default}` | {_meaning(told[field.name])} |")
    return "\n".join([*lines, "", *_EXAMPLE, ""])


def _shown(value: object) -> str:
    """A default as one would write it."""
    if isinstance(value, float):
        return f"{value:g}".replace("e+0", "e")
    return msgspec.json.encode(value).decode()


def _meaning(words: str) -> str:
    """The words of a flag without what only a command line does."""
    return words.removesuffix(" Repeatable.")


def _words_of_flags() -> dict[str, str]:
    group: Any = typer.main.get_command(app)
    check = group.commands["check"]
    return {p.name: p.help for p in check.params if getattr(p, "help", None)}


def _words_of_schema() -> dict[str, str]:
    hints = inspect.get_annotations(Settings, eval_str=True)
    metas = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: meta[0].description for name, meta in metas.items() if meta}


def python() -> str:
    """What the package offers to tests: each name with its signature and its docstring."""
    lines = [_head("Python"), "```python", "from gradcheck_cli import check_gradient", "```", ""]
    for function in (check_gradient,):
        lines += [f"## {function.__name__}", "", "```python", _signature(function), "```", ""]
        lines += [inspect.getdoc(function) or "", ""]
    lines += [
        "The [JSON Schema of a report](../report.schema.json) and [that of the settings](../settings.schema.json) are",
        "in the package, too, in its folder `schemas`.",
        "",
    ]
    return "\n".join(lines)


def _signature(function: Callable[..., None]) -> str:
    """The parameters, one a line."""
    parts = inspect.signature(function).parameters.values()
    each = [f"    {str(part).replace(chr(39), '')}," for part in parts]
    first, *rest = each
    return "\n".join([f"def {function.__name__}(", first, "    *,", *rest, ") -> None: ..."])


def all_rules() -> str:
    """All rules by family, each with a link to its page."""
    lines = [
        _head("Findings"),
        "Each has a name, a code and a page; `cgcheck explain NAME` shows it in the terminal.",
        "",
    ]
    for family, question in _FAMILIES.items():
        lines += [f"## {family}", "", question, "", "| code | rule | severity | what it finds |"]
        lines += ["|---|---|---|---|", *_rows(family), ""]
    return "\n".join(lines)


def _rows(family: str) -> Iterator[str]:
    for rule in rules().values():
        if rule.family == family:
            yield f"| {rule.code} | [{rule.name}]({_page(rule)}) | {rule.severity.value} | {_cell(rule.summary)} |"


def _page(rule: Rule) -> str:
    return f"../../rules/{rule.family}/{rule.name}.md"


def _cell(text: str) -> str:
    """Words for a cell of a table: bars would end it."""
    return re.sub(r"\|", r"\\|", text)


def _head(title: str) -> str:
    return f"# {title}\n"


def _foot() -> str:
    return "\n*Made by `python scripts/reference.py`.*\n"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
