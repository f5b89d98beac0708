"""`--help` in groups, with whole sentences, and without Python's types; and what is said of a value that is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

# What `cgcheck check` takes, by what it is for; what stands in no group comes last.
_GROUPS = {
    "What is checked": ("exclude", "force_exclude", "changed", "since", "shard", "import_all", "static", "backend"),
    "What is told": ("select", "ignore", "baseline", "update_baseline", "fail_on", "strict"),
    "How it is told": ("output_format", "statistics", "quiet", "verbose", "color", "durations"),
    "What is written": ("fix", "unsafe_fixes", "diff", "add_ignore"),
    "How it is checked": ("dtype", "points", "search", "order", "seed", "at", "reach", "reference", "device"),
    "How it is run": ("jobs", "cluster", "max_time", "no_cache", "watch", "config", "isolated", "show_settings", "show_files"),
}  # fmt: skip
_TYPE = re.compile(r" <[^>]*>$")
_DEFAULT = re.compile(r"\[default: \(([^()]*)\)(?:; [^\]]*)?\]")
_CHOICES = re.compile(r"(?:Value error, )?'(?P<word>[^']*)' is not one of (?P<choices>'[^.]*')\.?")
_NUMBER = re.compile(r"Input should be a valid (?P<kind>integer|number)\b.*")
_SENTENCE = re.compile(r"(?<=[.!?])\s")


class GroupedCommand(TyperCommand):
    """A command whose options are told in groups, and that knows what was meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except BadParameter as error:
            error.message = _in_plain_words(error.message)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows = {p.name: _row(record) for p in self.get_params(ctx) if (record := p.get_help_record(ctx))}  # fmt: skip
        arguments = [p.name for p in self.params if p.param_type_name == "argument"]
        _write(formatter, "Arguments", [rows.pop(name) for name in arguments if name in rows])
        for heading, names in _GROUPS.items():
            _write(formatter, heading, [rows.pop(name) for name in names if name in rows])
        _write(formatter, "Other options", list(rows.values()))


class CommandsInFull(TyperGroup):
    """A group that tells the first sentence of each command, however long it is."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _first_sentence(c.help or "")) for name, c in commands if c is not None]
        _write(formatter, "Commands", rows)


def _row(record: tuple[str, str]) -> tuple[str, str]:
    """An option and its help, without what only Python calls so."""
    option, text = record
    return _TYPE.sub("", option), _DEFAULT.sub(r"[default: \1]", text).replace(
        "[required]", ""
    ).strip()


def _in_plain_words(message: str) -> str:
    """What is wrong with a value, with the nearest that is right."""
    match = _CHOICES.fullmatch(message)
    if match is None:
        return _NUMBER.sub(r"it is no \g<kind>", message)
    choices = re.findall(r"'([^']*)'", match["choices"])
    meant = _nearest(match["word"], choices)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"{match['word']} is not one of {', '.join(choices)}{hint}"


def _nearest(word: str, choices: Sequence[str]) -> str | None:
    """The choice that is nearly this word, is in it (`pytorch`), or has its letters in order (`tf`)."""
    close = get_close_matches(word, choices, n=1)
    within = [choice for choice in choices if choice in word]
    shortened = re.compile(".*".join(map(re.escape, word)))
    spelled = [choice for choice in choices if len(word) > 1 and shortened.match(choice)]
    return next(iter([*close, *within, *spelled]), None)


def _write(formatter: Any, heading: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)


def _first_sentence(text: str) -> str:
    return _SENTENCE.split(" ".join(text.split()), maxsplit=1)[0]
