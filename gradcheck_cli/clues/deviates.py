"""Words by which a function's name or text says that its derivative is meant to be another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck_cli.clues.documentation import plain_function, texts_about

# As a whole word or a part of a name: `gradient_reversal`, `GradScale`, `stop_grad`.
_WORDS = re.compile(
    r"revers|flip|negat|scal(?:e|ing)|clip|clamp|stop|detach|freez|frozen|block|barrier|straight|surrogate"
    r"|attenuat|damp|limit|throttl|weaken|boost|multipl(?:y|ie)|factor|modif|mask|normali[sz]|transform|rotat|project",
    re.IGNORECASE,
)
# A text may speak of clipping values: only what it says of gradients counts.
_OF_GRADIENTS = re.compile(r"grad|cotangent|backward|derivative|adjoint|tangent|jvp|vjp", re.IGNORECASE)  # fmt: skip

_MEANT = r"\b(?:deliberate(?:ly)?|intentional(?:ly)?|on purpose|by (?:design|intent(?:ion)?))\b"
# What is meant may be another thing than the derivative: a rule may be stable by design.
_QUALITY = r"(?:stable|robust|cheap|fast|efficient|exact|safe)"
_MEANT_OTHERWISE = re.compile(rf"{_QUALITY} (?:{_MEANT})|(?:{_MEANT}) {_QUALITY}", re.IGNORECASE)
_ON_PURPOSE = re.compile(
    rf"{_MEANT}|not the (?:true|exact|actual|real) (?:gradient|derivative)|biased gradient"
    r"|(?:but with|instead of) an? \w+ (?:gradient|derivative)|\b(?:helpful|modified|alternative|different) (?:gradient|derivative)"
    r"|instead pass(?:es)? the (?:gradient|cotangent)"
    r"|guided[ -]?back[ -]?prop\w*|(?:positive|negative) (?:part|entries|values|components?) of the (?:\w+ )?(?:gradient|cotangent)",
    re.IGNORECASE,
)
# Of an argument by its name it may be said of that one alone.
_HELD = re.compile(
    r"no (?:gradient|derivative|cotangent) (?:flows|passes|goes)|treat(?:s|ed|ing)? .{1,60}? as (?:an? )?constants?|(?:held|kept|taken|treated|is) (?:as )?(?:an? )?constant\b",
    re.IGNORECASE,
)
_ENGLISH = frozenset({"a", "as", "in", "is", "it", "no", "of", "or", "to", "the"})
# What a rule says of itself: most that stands in it tells how a right gradient is computed.
_OF_A_RULE = re.compile(
    r"\bflows? through unchanged|without being (?:multiplied|scaled)|not the (?:true|exact|actual|real) (?:gradient|derivative)",
    re.IGNORECASE,
)

_SENTENCE = re.compile(
    r"(?:(?![.;]\s|\n\s*\n|\n[ \t]*[^\W\d]\w*[ \t]*(?:\([^()\n]*\)[ \t]*)?:\s).)+", re.DOTALL
)
# What a list of a docstring is headed by, in both styles.
_SECTION = re.compile(r"\s*(?:[A-Z]\w+ )?[A-Z]\w+:?\s*$")
_OF_PARAMETERS = re.compile(
    r"\s*(?:\w+ )?(?:Arg(?:ument)?s|Param(?:eter)?s|Inputs)\b", re.IGNORECASE
)
# What an entry of a docstring begins with: `times : array`, `times (Tensor): …`.
_HEAD = re.compile(r"(?P<indent>\s*)(?P<name>[^\W\d]\w*)\s*(?:\([^()]*\)\s*)?:(?:\s|$)")

_STRAIGHT = re.compile(r"[Ss]traight[- ]?[Tt]hrough|\bSTE\b")
_STRAIGHT_NAME = re.compile(
    r"(?i:straight_?through|fake_?quant|(?:\b|_)ste(?:\b|_))|(?<=[a-z\d])STE(?![a-z])"
)
# What keeps its argument within bounds, and may pass the cotangent there.
_SAFE_NAME = re.compile(r"(?:^|[._])safe_|(?:^|[._]|(?<=[a-z]))Safe(?!t(?:y|ensor))[A-Za-z]")


@dataclass(frozen=True, slots=True)
class _Said:
    """Words in a sentence, and the parameter in whose entry of a docstring it stands."""

    words: str
    sentence: str
    entry: str


def deviates(function: Callable[..., Any], rule: Sequence[Callable[..., Any]]) -> str:
    """The word that says so; none: nothing does."""
    named = _WORDS.search(getattr(plain_function(function), "__qualname__", ""))
    if named is not None:
        return named[0].lower()
    return next((said.words for said in _said([function, *rule], _WORDS)), "")


def on_purpose(
    function: Callable[..., Any], rule: Sequence[Callable[..., Any]], names: Sequence[str]
) -> tuple[str, frozenset[str]]:
    """The words by which a text says outright that the derivative is not that of the function.

    With the arguments that all of its sentences name, where these only say that something is held as a constant.
    """
    outright = next(_said([function], _ON_PURPOSE), None)
    outright = outright or next(_said([function, *rule], _OF_A_RULE), None)
    if outright is not None:
        return outright.words, frozenset()
    held = [
        s
        for s in _said([function], _HELD)
        if not s.entry.islower() or {s.entry, *_named(s, names)} & {*names}
    ]
    named = [_named(said, names) for said in held]
    if not held:
        return "", frozenset()
    return held[0].words, frozenset().union(*named) if all(named) else frozenset()


def _named(said: _Said, names: Sequence[str]) -> frozenset[str]:
    """The arguments that a sentence names: one that is an English word, too, in marks of code.

    Where it names none, it is the one in whose entry it stands: `times : array` and what is indented below.
    """
    words = set(re.findall(r"\w+", said.sentence)) - _ENGLISH
    named = frozenset(n for n in names if n in words or f"`{n}`" in said.sentence)
    return named or frozenset(n for n in names if n == said.entry)


def straight_through(function: Callable[..., Any], rule: Sequence[Callable[..., Any]]) -> bool:
    """Does a name or a text say that the cotangent passes as if a step, or a bound, were the identity?"""
    name = getattr(plain_function(function), "__qualname__", "")
    named = _STRAIGHT_NAME.search(name) or _SAFE_NAME.search(name)
    return named is not None or any(_said([function, *rule], _STRAIGHT, everywhere=True))


def _said(
    functions: Sequence[Callable[..., Any]], words: re.Pattern[str], *, everywhere: bool = False
) -> Iterator[_Said]:
    """The words in sentences about gradients (or in any), in texts about these very functions."""
    for text in (text for function in functions for text in texts_about(function) if text.near):
        for written in _SENTENCE.finditer(text.text):
            sentence = re.sub(r"\s+", " ", written[0])
            match = words.search(sentence)
            about = everywhere or _OF_GRADIENTS.search(sentence)
            if match is not None and about and not _MEANT_OTHERWISE.search(sentence):
                yield _Said(match[0].lower(), sentence, _entry(text.text, written))


def _entry(text: str, sentence: re.Match[str]) -> str:
    """The parameter of a docstring's list in whose entry the sentence stands; nothing if in none."""
    begin = sentence.start() + len(sentence[0]) - len(sentence[0].lstrip())
    lines = text[:begin].split("\n")
    begun = text[begin - len(lines[-1]) :].split("\n", 1)[0]
    indent, name = len(begun) - len(begun.lstrip()), ""
    for line in [begun, *reversed(lines[:-1])]:
        own = len(line) - len(line.lstrip())
        if _SECTION.match(line):
            return name if _OF_PARAMETERS.match(line) else ""
        head = _HEAD.match(line)
        if not name and head is not None and (line is begun or own < indent):
            name = head["name"]
        if line.strip():
            indent = min(indent, own)
    return ""
