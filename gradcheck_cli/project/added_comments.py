"""Comments of inputs, and of what is meant, put above the definitions in a file's text."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.project.comments import parse


@dataclass(frozen=True, slots=True)
class Addition:
    """A comment for one definition: its first line, decorators included, and the last of its header."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Edited:
    """The text with the comments, and what happened to each addition, in their order."""

    source: str
    outcomes: Sequence[str]


def edited(source: str, additions: Sequence[Addition]) -> Edited:
    """Each comment on a line of its own above its definition, unless that has one already."""
    taken = {item.applies_to: item.text for item in parse(source).inputs}
    outcomes: list[str] = []
    new: dict[int, str] = {}
    for addition in additions:
        place = next((n for n in range(addition.first, addition.last + 1) if n in taken), None)
        if new.get(addition.first) == addition.text:
            outcomes.append(f"written above line {addition.first} already")
        elif place is not None:
            outcomes.append(
                f"nothing is written: line {place} has inputs already, `{taken[place]}`"
            )
        else:
            new[addition.first] = taken[addition.first] = addition.text
            outcomes.append(f"`# cgcheck: {addition.text}` above line {addition.first}")
    return Edited(inserted(source, new), outcomes)


def inserted(source: str, comments: Mapping[int, str]) -> str:
    """The source with each comment on a line of its own above the line of its number."""
    lines = io.StringIO(source, newline="").readlines()
    for number in sorted(comments, reverse=True):  # from below: lines above keep their numbers
        line = lines[number - 1]
        indent = line[: len(line) - len(line.lstrip())]
        end = "\r\n" if line.endswith("\r\n") else "\n"
        lines.insert(number - 1, f"{indent}# cgcheck: {comments[number]}{end}")
    return "".join(lines)


def encoding_of(file: Path) -> str:
    """The encoding that a Python file declares."""
    with file.open("rb") as stream:
        return tokenize.detect_encoding(stream.readline)[0]
