"""Words for several parameters at once: `masks bool` for `pos_mask` and `neg_mask`, `x and y, both (n, d)`; each spelled out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from gradcheck_cli.clues.prose.dims import BRACKETS, PLURAL, probable

_STARRED = re.compile(r"(?<![\w.*])(?P<stem>[^\W\d]\w*_)\*(?![\w*])")
_COUNTS = {2: "both|two", 3: "three", 4: "four"}
# `kept (B, P) and skipped (B, N) are track ids`: said of the first as of the second.
_OF_BOTH = re.compile(
    rf"(?<![\w.])(?P<first>[^\W\d]\w*)\s*(?P<shape>{BRACKETS})(?P<between>\s+and\s+(?P<second>[^\W\d]\w*)\s*{BRACKETS}"
    r"\s+(?:are|both are)\s+(?P<said>[^.,;:\n]*))"
)
# `(B, C) scores, (B, 1) or (1, 1) thresholds -> (B,)`: each shape stands before its noun.
_NOUN = rf"(?P<shape>{BRACKETS})(?:\s+or\s+{BRACKETS})?\s+(?P<noun>[a-z_]+(?:\s+(?!and\b|or\b)[a-z_]+)?)"
_ITEM = re.sub(r"\?P<\w+>", "?:", _NOUN)
_ITEMS = rf"(?P<items>{_ITEM}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){_ITEM})+)"
# At the head of the text, or before what comes of it; elsewhere it may be what comes.
_BEFORE_NOUNS = (
    re.compile(rf"\A\s*{_ITEMS}(?=\s*(?:->|→|=>|[.;]|$))"),
    re.compile(rf"(?:(?<=[.:;]\s)|^)\s*{_ITEMS}(?=\s*(?:->|→|=>))", re.MULTILINE),
)
# `mesial and distal points, both (patients, teeth, 2)`
_BOTH = re.compile(
    r"(?<![\w.])(?P<names>`*[^\W\d]\w*`*(?:\s*,\s*`*[^\W\d]\w*`*)*,?\s+and\s+`*[^\W\d]\w*`*)(?P<noun>(?:\s+(?!and\b|or\b)[a-z]+){0,3})"
    r",?\s+(?P<many>both|all)\s+(?:(?:are|of|have|has|with|the|shapes?)\s+)*"
    rf"(?P<shape>{BRACKETS})" + r"(?P<more>(?:,?\s+(?!and\b|or\b)[a-z\d]+){0,4}(?=[.,;\n]|$))?"
)
# `query, key, value of (batch, heads, depth)`, `q, k and v of shape (b, d)`
_LISTED_OF = re.compile(
    r"(?<![\w.])(?P<names>`*[^\W\d]\w*`*(?:\s*,\s*`*[^\W\d]\w*`*)+(?:,?\s+and\s+`*[^\W\d]\w*`*)?)"
    rf"\s+of\s+(?:shape\s+)?(?P<shape>{BRACKETS})"
)
# `the entries at i, j, k of (rows, cols, planes)`
_SIZES_OF = re.compile(
    r"\b(?:sizes?|axes|axis|dim(?:ension)?s?|entr(?:y|ies)|ind(?:ex|ices)|places?|at)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
# `photo_object (P,), caption_object (C,): integer object numbers`: said of each, behind shapes of their own.
_LISTED_BEFORE = re.compile(
    rf"(?<![\w.])(?P<listed>`*[^\W\d]\w*`*\s*{BRACKETS}(?:\s*,\s*(?:and\s+)?`*[^\W\d]\w*`*\s*{BRACKETS}){{1,7}})"
    r"\s*:\s+(?P<said>(?:u?int\w*|integers?|bool\w*|positive|non-?negative|binary|0/1)\b[^.;\n]*)",
    re.IGNORECASE,
)
_WITH_SHAPE = re.compile(rf"(?P<name>[^\W\d]\w*)`*\s*(?P<shape>{BRACKETS})")
# `drive: (steps, reeds); the other five: (reeds,)`
_OTHERS = re.compile(
    r"(?:(?<=[;.:,]\s)|^\s*)(?:and\s+)?(?:[Tt]he\s+)(?:others?|rest|remaining)(?:\s+(?P<count>two|three|four|five|six|seven))?(?:\s+(?:arguments?|inputs?|parameters?|arrays?))?"
    rf"\s*(?::|\bare\b|\bhave\b|\bof\b)\s*(?:all\s+)?(?:of\s+)?(?:shape\s+)?(?P<shape>{BRACKETS})",
    re.MULTILINE,
)
_NUMBERS = ("two", "three", "four", "five", "six", "seven")
_SHORT = 2  # letters of names whose plural is another word
_OTHERWISE = frozenset(["to", "with", "of", "from", "by", "in", "on", "for", "at", "the", "lie", "between"])  # fmt: skip
_SAME_SHAPES = re.compile(r"\bthe same shapes?\b(?!\s+(?:as|of|with)\b)")


def spelled_out(text: str, names: Sequence[str]) -> str:
    """The text with an entry for each parameter where several have one: a plural, a star (`sign_*`), both, shapes before nouns."""
    text = _STARRED.sub(lambda match: _all_of(match["stem"], names) or match[0], text)
    text = _OF_BOTH.sub(lambda match: _said_twice(match, names), text)
    text = _BOTH.sub(lambda match: _of_each(match, names), text)
    text = _LISTED_OF.sub(lambda match: _with_one_shape(match, names), text)
    text = _LISTED_BEFORE.sub(lambda match: _said_of_each(match, names), text)
    text = _OTHERS.sub(lambda match: _of_the_others(match, names), text)
    for shapes_first in _BEFORE_NOUNS:
        text = shapes_first.sub(lambda match: _behind_names(match, names), text)
    text = _with_plural_names(text, names)
    for name in names:  # `Frames are (N, 3, H, W)`
        of_each = rf"(?:(?<=[;.]\s)|^)(?:[Tt]he\s+)?{_with_capital(name)}s\s+(?:are|have\s+shape)\s+(?=[(\[])"
        text = re.sub(of_each, f"{name}: ", text, flags=re.MULTILINE)
    for plural, members in _plurals(names, first=True):  # `the two logs are scalars`
        count = _COUNTS.get(len(members), "(?!)")
        said = re.compile(
            rf"(?:(?<=[,;:.]\s)|^)(?:and\s+)?(?:[Tt]he\s+)?(?:{count})\s+{plural}\s+are\s+(?P<said>(?:[^,.;()\n]|\([^()]*\))*)",
            re.MULTILINE,
        )
        text = said.sub(partial(_spelled, members, names), text)
    for plural, members in _plurals(names):
        if all(_is_named(member, text) for member in members):
            continue  # each has words of its own, in which the plural is another word
        said = re.compile(rf"(?<![\w.])(?:both\s+)?{plural}\b(?![_(])(?P<said>[^,.;\n]*)")
        text = said.sub(partial(_spelled, members, names), text)
    return text


def _said_of_each(match: re.Match[str], names: Sequence[str]) -> str:
    """`a (P,): integers; b (C,): integers`, where all that is listed are parameters."""
    listed = list(_WITH_SHAPE.finditer(match["listed"]))
    if any(each["name"] not in names for each in listed):
        return match[0]
    return "; ".join(f"{each['name']} {each['shape']}: {match['said']}" for each in listed)


def _with_plural_names(text: str, names: Sequence[str]) -> str:
    """The text with `query [B, H], key [B, G], value [B, G]` for `queries [B, H], keys and values [B, G]`."""
    several = {_plural(name): name for name in names if len(name) > _SHORT}  # not `as` of `a`
    singular = {plural: name for plural, name in several.items() if plural not in names}
    each = "|".join(map(re.escape, singular)) or "(?!)"
    last = "|".join(map(re.escape, (*singular, *names)))  # which may have been made one before
    said = re.compile(
        rf"(?<![\w.])(?P<listed>(?:{each})(?:\s*,\s*(?:{each}))*(?:,?\s+and\s+(?:{last}))?)\s+(?P<shape>{BRACKETS})"
    )

    def alone(match: re.Match[str]) -> str:
        listed = re.findall(r"\w+", re.sub(r"\band\b", " ", match["listed"]))
        if not probable(match["shape"]):
            return match[0]
        return ", ".join(f"{singular.get(word, word)} {match['shape']}" for word in listed)

    return said.sub(alone, text)


def _plural(name: str) -> str:
    """Several of what a name says: `queries`, `keys`."""
    return f"{name[:-1]}ies" if re.search(r"[^aeiou]y$", name) else f"{name}s"


def _with_capital(name: str) -> str:
    """A name with a small letter or a capital at its head, as sentences begin."""
    head = re.escape(name[0])
    return f"(?:{head}|{head.upper()}){re.escape(name[1:])}"


def _all_of(stem: str, names: Sequence[str]) -> str:
    """The parameters that begin so, where there are several: `sign_x, sign_y`."""
    members = [name for name in names if name.startswith(stem)]
    return ", ".join(members) if len(members) > 1 else ""


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def _of_each(match: re.Match[str], names: Sequence[str]) -> str:
    """An entry for each of the parameters that are named before the shape of all of them."""
    listed = re.findall(r"\w+", re.sub(r"\band\b", " ", match["names"]))
    pair = len(listed) == 2 or match["many"] == "all"
    nouns = match["noun"].split()
    if not pair or not all(name in names for name in listed) or {*nouns} & {*names, *_OTHERWISE}:
        return match[0]
    dims = re.findall(r"\w+", match["shape"])
    sure = all(d.isdigit() or d in names or PLURAL.fullmatch(d) for d in dims) and len(dims) > 1
    if all(d.isdigit() for d in dims) or not (sure or probable(match["shape"])):
        return match[0]
    sort = " ".join(word for word in nouns if word not in ("is", "are"))
    shape = f"of shape {match['shape']}" if sure else match["shape"]
    said = f"{shape} {sort}{match['more'] or ''}"
    return "\n" + "\n".join(f"{name}: {said}" for name in listed) + "\n"


def _of_the_others(match: re.Match[str], names: Sequence[str]) -> str:
    """An entry for each parameter of which the text tells no shape before; of more than are counted those that come first."""
    before = match.string[: match.start()]
    ahead = [
        re.split(r"[.;\n]", before[: each.start()])[-1] for each in re.finditer(BRACKETS, before)
    ]
    told = {name for clause in ahead for name in names if _is_named(name, clause)}
    others = [name for name in names if name not in told]
    count = _NUMBERS.index(match["count"]) + 2 if match["count"] else len(others)
    sizes = re.findall(r"\w+", match["shape"])
    is_shape = "," in match["shape"] or probable(match["shape"]) is not None
    if not (told and is_shape) or len(others) < max(count, 1) or {*sizes} & {*others}:
        return match[0]
    return "\n" + "\n".join(f"{name}: of shape {match['shape']}" for name in others[:count]) + "\n"


def _with_one_shape(match: re.Match[str], names: Sequence[str]) -> str:
    """The shape behind each of the parameters that are listed before it."""
    listed = re.findall(r"\w+", re.sub(r"\band\b", " ", match["names"]))
    dims = re.findall(r"\w+", match["shape"])
    apart = not {*dims} & {*listed} and not _SIZES_OF.search(match.string[: match.start()])
    if not (apart and all(name in names for name in listed) and probable(match["shape"])):
        return match[0]
    return ", ".join(f"{name} of shape {match['shape']}" for name in listed)


def _behind_names(match: re.Match[str], names: Sequence[str]) -> str:
    """An entry for each shape that stands before a noun which is the last word of one parameter; other nouns are left out."""
    found: dict[str, str] = {}
    items = list(re.finditer(_NOUN, match["items"]))
    if not any(probable(item["shape"]) for item in items):
        return match[0]
    for item in items:
        meant, noun = _meant(item["noun"].split(), names), item["noun"]
        sort = noun[: -len(noun.split()[-1])].strip()  # `long` of `long lengths`
        shape = min(re.findall(BRACKETS, item[0]), key=lambda dims: dims.count("1"))
        found |= {meant: f"{shape} {sort}"} if meant else {}
    if not found:
        return match[0]
    return "\n".join(f"{name}: {said}" for name, said in found.items()) + "\n"


def _meant(words: Sequence[str], names: Sequence[str]) -> str:
    """The one parameter of this name, or else of this last word: `next values` is `next_values`, and not `values`."""
    whole, last = _single("_".join(words)), _single(words[-1].rpartition("_")[2])
    for fits in (
        [name for name in names if _single(name) == whole],
        [name for name in names if _single(name) == last],
        [name for name in names if _single(name.rpartition("_")[2]) == last],
    ):
        if fits:
            return fits[0] if len(fits) == 1 else ""
    return ""


def _single(word: str) -> str:
    """One of what a word in the plural says."""
    return word.lower().removesuffix("s")


def _said_twice(match: re.Match[str], names: Sequence[str]) -> str:
    """What is said of two arguments behind the second, behind the first, too."""
    if match["first"] not in names or match["second"] not in names:
        return match[0]
    return f"{match['first']} {match['shape']} {match['said']}{match['between']}"


def _plurals(names: Sequence[str], *, first: bool = False) -> Iterator[tuple[str, list[str]]]:
    """The plural of each last word that two parameters share, or first, unless it is a parameter's own name."""
    members: dict[str, list[str]] = {}
    for name in names:
        word = name.partition("_")[0] if first else name.rpartition("_")[2]
        members.setdefault(word if word.endswith("s") else f"{word}s", []).append(name)
    for plural, those in members.items():
        if len(those) > 1 and plural not in names and len(plural) > 2:
            yield plural, those


def _spelled(members: Sequence[str], names: Sequence[str], match: re.Match[str]) -> str:
    """`pos_mask: bool of the same shape as pos; neg_mask: …` for what is said of both."""
    return "; ".join(f"{name}: {_of_its_own(name, match['said'], names)}" for name in members)


def _of_its_own(name: str, said: str, names: Sequence[str]) -> str:
    """`the same shape as pos` for `the same shapes`, of `pos_mask`."""
    first = name.rpartition("_")[0]
    if first not in names:
        return said
    return _SAME_SHAPES.sub(f"the same shape as {first}", said)
