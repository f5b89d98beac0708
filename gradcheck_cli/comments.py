"""`# cgcheck: ignore[rule] -- reason`, read from the tokens of a file."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"#\s*cgcheck:\s*(?P<verb>[a-z-]+)\s*(?P<rest>.*)$")
_IGNORE = re.compile(r"\[(?P<rules>[^\]]*)\]\s*(?:--\s*(?P<reason>.*))?$")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One suppression: on its own line, or for the line below if nothing else is on it."""

    line: int
    applies_to: int
    rules: tuple[str, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A `# cgcheck:` comment that means nothing; silence would hide a typo."""

    line: int
    text: str
    problem: str


def parse(source: str) -> tuple[list[Ignore], list[Malformed]]:
    """All directives of a file. A file that does not tokenize has none."""
    ignores: list[Ignore] = []
    malformed: list[Malformed] = []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return [], []
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        match = _DIRECTIVE.search(token.string)
        if match is None:
            continue
        line, column = token.start
        alone = not token.line[:column].strip()
        result = _directive(match, line, _below(tokens, line) if alone else line)
        (ignores if isinstance(result, Ignore) else malformed).append(result)  # type: ignore[arg-type]
    return ignores, malformed


def _below(tokens: list[tokenize.TokenInfo], line: int) -> int:
    """The next line that holds code."""
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    return next((t.start[0] for t in tokens if t.start[0] > line and t.type not in skip), line)


def _directive(match: re.Match[str], line: int, applies_to: int) -> Ignore | Malformed:
    text = match.group(0)
    if match["verb"] != "ignore":
        return Malformed(line, text, f"unknown directive `{match['verb']}`; known: ignore")
    inner = _IGNORE.match(match["rest"])
    if inner is None:
        return Malformed(line, text, "write `# cgcheck: ignore[rule-name] -- reason`")
    rules = tuple(filter(None, (name.strip() for name in inner["rules"].split(","))))
    if not rules:
        return Malformed(line, text, "name the rule to ignore between the brackets")
    reason = (inner["reason"] or "").strip() or None
    if reason is None:
        return Malformed(line, text, "give the reason: `ignore[rule-name] -- reason`")
    return Ignore(line, applies_to, rules, reason)
