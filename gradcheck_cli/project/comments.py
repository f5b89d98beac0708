"""`# cgcheck:` comments, read from the tokens of a file: what to ignore, what inputs are."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.project.input_specs import SpecError
from gradcheck_cli.project.input_specs import parse as parse_spec
from gradcheck_cli.project.intent_specs import EXPECT, IntentError
from gradcheck_cli.project.intent_specs import parse as parse_intents
from gradcheck_cli.project.rule_pages import matching

WHOLE_FILE = 0  # instead of a line
_DIRECTIVE = re.compile(r"#\s*cgcheck:\s*(?P<rest>\S.*?)\s*(?=#\s*cgcheck:|$)")
# `# cgcheck expect(…)`: what it lacks is seen by what follows, for prose may begin with the name, too.
_WITHOUT_COLON = re.compile(
    r"#\s*cgcheck\s+(?P<rest>(?:ignore(?:-file)?\s*\[|expect\s*\(|reference\s*\().*)"
)
_SPEC = re.compile(r"[A-Za-z_]\w*\s*[=:]")
_REFERENCE = re.compile(r"reference\(\s*(?P<function>(?:[\w.]*:)?[\w.]+)\s*\)")
_IGNORE = re.compile(r"\[(?P<rules>[^\]]*)\]\s*(?:--\s*(?P<reason>.*))?$")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One suppression: on its own line, for the line below if nothing else is on it, or for the file.

    Above decorators it is one for what they decorate.
    """

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


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the arguments of a definition are, such as `x=f32[b n]`."""

    line: int
    applies_to: int
    text: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the rule of a definition is meant to be, such as `expect(straight-through)`."""

    line: int
    applies_to: int
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The function that the rule of a definition is to differentiate: `reference(my_package.plain:gelu)`."""

    line: int
    applies_to: int
    text: str


_ENDS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)  # of a statement
_HEADS = ("def", "class", "async")

Directive = Ignore | Inputs | Expectation | Reference


@dataclass(slots=True)
class Comments:
    """All directives of a file."""

    ignores: list[Ignore] = field(default_factory=list)
    inputs: list[Inputs] = field(default_factory=list)
    expects: list[Expectation] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)


def parse(source: str) -> Comments:
    """The directives of a source; one that does not tokenize has none."""
    comments = Comments()
    if "cgcheck" not in source.lower():
        return comments  # most files: splitting into tokens takes longer than all else that is read
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return comments
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        alone = not token.line[:column].strip()
        if lacking := _WITHOUT_COLON.match(token.string):
            problem = "write a colon behind `cgcheck`"
            comments.malformed.append(Malformed(line, lacking["rest"], problem))
        for match in _DIRECTIVE.finditer(token.string):
            for text in _each(match["rest"]):
                at = _below(tokens, line) if alone else line
                if alone and text.startswith("ignore"):
                    at = _defined(tokens, at)
                _sort(_directive(text, line, at), comments)
    return comments


def _each(rest: str) -> list[str]:
    """Inputs and what is expected may stand in one comment, with commas between."""
    if rest.startswith("ignore"):
        return [rest]
    rest = rest.partition(" #")[0].strip()  # another comment after it
    expects = [match[0] for match in EXPECT.finditer(rest)]
    others = re.sub(r"\s*,\s*(?=,|$)|^[\s,]+", "", EXPECT.sub("", rest)).strip()
    return [
        *([others] if others or not expects else []),
        *([", ".join(expects)] if expects else []),
    ]


def _sort(directive: Directive | Malformed, comments: Comments) -> None:
    if isinstance(directive, Ignore):
        comments.ignores.append(directive)
    elif isinstance(directive, Inputs):
        comments.inputs.append(directive)
    elif isinstance(directive, Expectation):
        comments.expects.append(directive)
    elif isinstance(directive, Reference):
        comments.references.append(directive)
    else:
        comments.malformed.append(directive)


def _below(tokens: list[tokenize.TokenInfo], line: int) -> int:
    """The next line that holds code."""
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    return next((t.start[0] for t in tokens if t.start[0] > line and t.type not in skip), line)


def _defined(tokens: list[tokenize.TokenInfo], line: int) -> int:
    """The line of the definition, where this line is one of its decorators."""
    before = [
        t for t in tokens if t.start[0] < line and t.type not in (tokenize.COMMENT, tokenize.NL)
    ]
    after = [t for t in tokens if t.start[0] >= line and t.string.strip()]
    begins = not before or before[-1].type in _ENDS  # else it is a product of matrices
    if not begins or not after or after[0].string != "@":
        return line
    heads = (t.start[0] for t in after if t.string in _HEADS and not t.line[: t.start[1]].strip())
    return next(heads, line)


def _directive(rest: str, line: int, applies_to: int) -> Directive | Malformed:
    text = f"# cgcheck: {rest}"
    if _SPEC.match(rest):
        try:
            parse_spec(rest)
        except SpecError as error:
            return Malformed(line, text, str(error))
        return Inputs(line, applies_to, rest)
    if rest.startswith("expect("):
        try:
            parse_intents(rest)
        except IntentError as error:
            return Malformed(line, text, str(error))
        return Expectation(line, applies_to, rest)
    if rest.startswith("reference("):
        target = _REFERENCE.fullmatch(rest)
        if target is None:
            return Malformed(line, text, "name the function: `reference(module:function)`")
        return Reference(line, applies_to, target["function"])
    return _suppression(rest, line, applies_to)


def _suppression(rest: str, line: int, applies_to: int) -> Ignore | Malformed:
    text = f"# cgcheck: {rest}"
    verb = rest.partition("[")[0].split(" ")[0]
    if verb not in ("ignore", "ignore-file"):
        directives = "`ignore[rule] -- reason`, `ignore-file[rule] -- reason`, `expect(…)`, `reference(module:function)`, or inputs such as `x=f32[b n]`"
        return Malformed(line, text, f"unknown directive `{verb}`; known: {directives}")
    inner = _IGNORE.match(rest.removeprefix(verb).strip())
    if inner is None:
        return Malformed(line, text, "write `# cgcheck: ignore[rule-name] -- reason`")
    rules = tuple(filter(None, (name.strip() for name in inner["rules"].split(","))))
    if not rules:
        return Malformed(line, text, "name the rule to ignore between the brackets")
    reason = (inner["reason"] or "").strip() or None
    if reason is None:
        return Malformed(line, text, "give the reason: `ignore[rule-name] -- reason`")
    for rule in rules:
        try:
            matching(rule)
        except UsageError as unknown:
            return Malformed(line, text, str(unknown))
    return Ignore(line, WHOLE_FILE if verb == "ignore-file" else applies_to, rules, reason)
