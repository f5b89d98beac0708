"""What a text says of several parameters at once: `all inputs are positive`, `a and b (both > 0)`, and how they are related."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from gradcheck_cli.clues.prose.passages import SENTENCE_END
from gradcheck_cli.clues.prose.relations import with_relations
from gradcheck_cli.inputs.clue import Clue, Kind

_ALL = re.compile(
    r"\ball\s+(?:arguments|inputs|parameters|arrays|tensors|of them)\s+(?:(?:are|must be|have to be|should be)\s+)?"
    r"(?:strictly\s+)?(?P<sign>positive|non-?negative)\b(?!\W+(?:semi|definite))"
    r"|(?:\A|\n\s*\n|[.;]\s)[ \t]*all\s*(?P<least>>=?|≥)\s*0(?!\.?\d)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"\((?P<many>both|all)\s+(?:are\s+)?(?P<bound>(?:>=?|≥)\s*0(?:\.0*)?|(?:strictly\s+)?positive|non-?negative)(?:\)|,(?=[^()]*\)))",
    re.IGNORECASE,
)
_SCALARS = re.compile(
    r"(?<!\bof )(?<!\bno )(?<!\bnot )(?<!non-)\bscalars:?\s+(?P<names>`*[^\W\d]\w*`*(?:\s*,\s*(?:and\s+)?`*[^\W\d]\w*`*|\s+and\s+`*[^\W\d]\w*`*)+)"
    r"(?!\w|\s*(?:of shape|are|have|with shape|[(\[]))"
)
_TOKEN = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|\n\s*\n|[.;:](?=\s)|[^\w\s]")
_ENDS = (".", ";", ":", "=")
_POWER = re.compile(r"(?:\*\*|\^)\s*[^\W\d]\w*")
_ITEM_END = re.compile(r",\s*(?:and\b)?|\band\b")
_BEFORE_A_LIST = ("of", "over", "with", "for", "by", "from", "at", "in", "on", "to", "between")
_FROM_ZERO = re.compile(
    r"\b(?:in|to|within|range|interval)\s*[\[(]\s*0(?:\.0*)?\s*,\s*(?P<name>[^\W\d]\w*)\s*(?P<end>[\])])"
)
# Where a text makes exceptions or speaks of signs, what it says of all inputs is not said of all that they hold.
NOT_OF_ALL = re.compile(
    r"\b(?:but|except|apart from|unless|either sign|any sign|signed|(?<!non-)negative)\b",
    re.IGNORECASE,
)


def with_what_is_said_of_several(
    told: Mapping[str, Clue], written: str, source: str, *, near: bool
) -> dict[str, Clue]:
    """The clues, with what the text says of all parameters, of those that it lists, and of one beside another."""
    if near:
        told = _of_scalars(told, written, source)
        told = _of_several(_of_all(told, written, source), written, source)
    return with_relations(_with_upper_ends(told, written), written)


def _of_scalars(told: Mapping[str, Clue], written: str, source: str) -> dict[str, Clue]:
    """The clues, with single numbers for what is listed behind that word: `a dict with scalars floor, rise and centre`."""
    found = dict(told)
    for said in _SCALARS.finditer(written):
        words = re.findall(r"\w+", said["names"])
        listed = [word for word in words if word in told] if words[0] in told else []
        about = Clue(f"{source} `scalars {', '.join(listed)}`", "f32[]", kind=Kind.NUMBER)
        found |= {name: about for name in listed if told[name] == Clue(told[name].source)}
    return found


def _of_all(told: Mapping[str, Clue], written: str, source: str) -> dict[str, Clue]:
    """The clues, with what the text says of all arguments at once for those of which it says no domain."""
    said = _ALL.search(written)
    if said is None:
        return dict(told)
    positive = said["least"] == ">" or (said["sign"] or "").lower() == "positive"
    domain = "> 0" if positive else ">= 0"
    about = Clue(
        f"{source} `{said.group()}`", domain=domain, for_all=not NOT_OF_ALL.search(written)
    )
    return {
        name: about
        if clue == Clue(clue.source)
        else replace(clue, domain=clue.domain or domain)
        if clue.kind in (Kind.NOTHING, Kind.ARRAY, Kind.NUMBER)
        else clue
        for name, clue in told.items()
    }


def _of_several(told: Mapping[str, Clue], written: str, source: str) -> dict[str, Clue]:
    """The clues, with what is said in brackets of the names before it: `tonnes * km**gamma (both > 0)`."""
    found = dict(told)
    for said in _SEVERAL.finditer(written):
        listed = _listed(_POWER.sub(" ", written[: said.start()]), told)
        if said["many"].lower() == "all":
            listed |= _last_words(written[: said.start()], told)
        named = [name for name in told if name in listed]
        if said["many"].lower() == "both" and len(named) != 2:
            continue
        domain = ">= 0" if "=" in said["bound"] or said["bound"][0] in "≥nN" else "> 0"
        for name in named:
            clue = found[name]
            about = f"{source} `{said.group()}`"
            if clue == Clue(clue.source):
                found[name] = Clue(about, domain=domain)
            elif clue.kind in (Kind.NOTHING, Kind.ARRAY, Kind.NUMBER):
                found[name] = replace(clue, domain=clue.domain or domain)
    return found


def _listed(before: str, names: Collection[str]) -> set[str]:
    """The names at the end of a text, in a list or a formula: no other word stands between them."""
    listed: set[str] = set()
    for token in reversed(_TOKEN.findall(before)):
        if token in names:
            listed.add(token)
        elif (
            not token.strip()
            or token in _ENDS
            or (token[0].isalpha() and token not in ("and", "or"))
        ):
            break
    return listed


def _last_words(before: str, names: Collection[str]) -> set[str]:
    """The names at the end of a list whose items have words before them: `critical area, defect density and alpha`."""
    found: set[str] = set()
    for item in reversed(_ITEM_END.split(SENTENCE_END.split(before)[-1])):
        words = re.findall(r"\w+", item)
        if not words or words[-1] not in names:
            break
        found.add(words[-1])
        if any(word.lower() in _BEFORE_A_LIST for word in words):
            break
    return found


def _with_upper_ends(told: Mapping[str, Clue], written: str) -> dict[str, Clue]:
    """The clues, with a bound for numbers that are the upper end of what begins at zero: `limited to [0, capacity]`."""
    found = list(_FROM_ZERO.finditer(written))
    ends, closed = {m["name"] for m in found}, {m["name"] for m in found if m["end"] == "]"}

    def is_one(name: str, clue: Clue) -> bool:
        numbers = clue.kind in (Kind.ARRAY, Kind.NUMBER)
        return not clue.domain and (name in ends if numbers else name in closed and clue.kind is Kind.NOTHING)  # fmt: skip

    return {n: replace(c, domain="> 0") if is_one(n, c) else c for n, c in told.items()}
