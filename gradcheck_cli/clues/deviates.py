"""Words by which a function's name or text says that its derivative is meant to be another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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

_MEANT = r"deliberate(?:ly)?|intentional(?:ly)?|on purpose|by design"
# What is meant may be another thing than the derivative: a rule may be stable by design.
_QUALITY = r"(?:stable|robust|cheap|fast|efficient|exact|safe)"
_MEANT_OTHERWISE = re.compile(rf"{_QUALITY} (?:{_MEANT})|(?:{_MEANT}) {_QUALITY}", re.IGNORECASE)
_ON_PURPOSE = re.compile(
    rf"{_MEANT}|not the (?:true|exact|actual|real) (?:gradient|derivative)|biased gradient"
    r"|(?:but with|instead of) an? \w+ (?:gradient|derivative)|\b(?:helpful|modified|alternative|different) (?:gradient|derivative)"
    r"|instead pass(?:es)? the (?:gradient|cotangent)|no (?:gradient|derivative|cotangent) (?:flows|passes|goes)"
    r"|guided[ -]?back[ -]?prop\w*|(?:positive|negative) (?:part|entries|values|components?) of the (?:\w+ )?(?:gradient|cotangent)",
    re.IGNORECASE,
)
# Of an argument by its name it may be said of that one alone.
_HELD = re.compile(
    r"treat(?:s|ed|ing)? .{1,60}? as (?:an? )?constants?|(?:held|kept|taken|treated|is) (?:as )?(?:an? )?constant\b",
    re.IGNORECASE,
)
_ENGLISH = frozenset({"a", "as", "in", "is", "it", "no", "of", "or", "to", "the"})
# What a rule says of itself: most that stands in it tells how a right gradient is computed.
_OF_A_RULE = re.compile(
    r"\bflows? through unchanged|without being (?:multiplied|scaled)|not the (?:true|exact|actual|real) (?:gradient|derivative)",
    re.IGNORECASE,
)

_STRAIGHT = re.compile(r"straight[- ]?through|\bSTE\b")
_STRAIGHT_NAME = re.compile(r"straight_?through|fake_?quant|(?:\b|_)ste(?:\b|_)", re.IGNORECASE)
# What keeps its argument within bounds, and may pass the cotangent there.
_SAFE_NAME = re.compile(r"(?:^|[._])safe_|(?:^|[._]|(?<=[a-z]))Safe(?!t(?:y|ensor))[A-Za-z]")


def deviates(function: Callable[..., Any], rule: Sequence[Callable[..., Any]]) -> str:
    """The word that says so; none: nothing does."""
    named = _WORDS.search(getattr(plain_function(function), "__qualname__", ""))
    if named is not None:
        return named[0].lower()
    return next((words for words, _ in _said([function, *rule], _WORDS)), "")


def on_purpose(
    function: Callable[..., Any], rule: Sequence[Callable[..., Any]], names: Sequence[str]
) -> tuple[str, frozenset[str]]:
    """The words by which a text says outright that the derivative is not that of the function.

    With the arguments that all of its sentences name, where these only say that something is held as a constant.
    """
    outright = next(_said([function], _ON_PURPOSE), None)
    outright = outright or next(_said([function, *rule], _OF_A_RULE), None)
    if outright is not None:
        return outright[0], frozenset()
    held = list(_said([function], _HELD))
    named = [_named(sentence, names) for _, sentence in held]
    if not held:
        return "", frozenset()
    return held[0][0], frozenset().union(*named) if all(named) else frozenset()


def _named(sentence: str, names: Sequence[str]) -> frozenset[str]:
    """The arguments that a sentence names: one that is an English word, too, in marks of code."""
    words = set(re.findall(r"\w+", sentence)) - _ENGLISH
    return frozenset(n for n in names if n in words or f"`{n}`" in sentence)


def straight_through(function: Callable[..., Any], rule: Sequence[Callable[..., Any]]) -> bool:
    """Does a name or a text say that the cotangent passes as if a step, or a bound, were the identity?"""
    name = getattr(plain_function(function), "__qualname__", "")
    named = _STRAIGHT_NAME.search(name) or _SAFE_NAME.search(name)
    return named is not None or any(_said([function, *rule], _STRAIGHT, everywhere=True))


def _said(
    functions: Sequence[Callable[..., Any]], words: re.Pattern[str], *, everywhere: bool = False
) -> Iterator[tuple[str, str]]:
    """The words in sentences about gradients (or in any), each with its sentence, in texts about these very functions."""
    sentences = (
        re.sub(r"\s+", " ", sentence)
        for function in functions
        for text in texts_about(function)
        if text.near
        for sentence in re.split(r"[.;]\s|\n\s*\n", text.text)
    )
    telling = (s for s in sentences if everywhere or _OF_GRADIENTS.search(s))
    found = ((words.search(s), s) for s in telling if not _MEANT_OTHERWISE.search(s))
    return ((match[0].lower(), s) for match, s in found if match is not None)
