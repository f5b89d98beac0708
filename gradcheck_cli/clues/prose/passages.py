"""Passages: the places of a text that speak of one parameter, as entries of a list or inside a sentence."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.clues.prose.abbreviations import in_one_word, shortened
from gradcheck_cli.clues.prose.columns import with_colons
from gradcheck_cli.clues.prose.dims import BRACKETS, probable, stated
from gradcheck_cli.clues.prose.in_order import own_words
from gradcheck_cli.clues.prose.plurals import spelled_out

_ROLE = re.compile(r":(?:math|class|attr|obj|func|py:\w+|code|data|meth):`~?([^`]*)`")
_LATEX = (
    (re.compile(r"\\(?:text|mathrm|mathbf|mathit|textit|operatorname)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\(?:times|cdot)"), " x "),
    (re.compile(r"\\(?:ldots|dots|cdots)"), "..."),
    (re.compile(r"\\in\b"), "∈"),
    (re.compile(r"\\mathbb\{?R\}?"), "R"),
    (re.compile(r"_\{([\w, ]+)\}"), r"_\1"),
    (re.compile(r"\\[,;!]|\\left|\\right|\$"), ""),
    (re.compile(r"\\leq?\b"), "<="),
    (re.compile(r"\\geq?\b"), ">="),
)
# `units of the distance, "m" or "cm"`: the words are those of the units.
_NOUN_OF = re.compile(r"\bof\s+(?:the\s+|an?\s+|its\s+)?$")
_QUOTES = re.compile(r"\W*(?:in\s+|either\s+|one of\s+)?[`(\[{]*['\"]")
_SENTENCE = re.compile(r"[.;](?=\s)")
_ARROW = re.compile(r"(?P<before>[^\s(\[]*[)\]\w.`])\s*(?:->|→)\s*(?=[(\[\w])")
_RESULTS = re.compile(
    r"^\s*(?::?(?:returns?|rtype|yields?|raises?|outputs?|results?|out|examples?"
    r"|references?|notes?|see also|usage)\b[^:\n]*:|(?:returns|yields|raises|examples?"
    r"|references|notes|see also)\s*$)",
    re.IGNORECASE,
)
# `Returns log(x) / beta, (n, d).`: the shape is of what comes out.
_OF_THE_RESULT = re.compile(rf"(\b(?:[Rr]eturns?|[Yy]ields?|[Gg]ives?)\s[^.;\n]*?),\s*{BRACKETS}(?=\s*(?:[.;,]|$))", re.MULTILINE)  # fmt: skip
_SECTION = re.compile(
    r"^\s*(?:args|arguments|parameters|params|inputs?|shapes?|attributes|keyword args"
    r"|other parameters)\s*:?\s*$",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?P<mark>['\"])(?P<dims>[\w.*+-]+(?: +[\w.*+-]+)+)(?P=mark)")
_QUOTED_ENTRY = re.compile(
    r"(?<=\w: )(?P<mark>['\"])(?P<dims>[a-z_]\w*(?: +[a-z_\d]\w*)+)(?P=mark)"
)
# `float[batch, species]`: a type and the axes of an array of it.
_TYPED = re.compile(
    r"\b(?P<type>(?:float|int|bool|uint)\d*|[fiu](?:8|16|32|64)|[Aa]rray|[Tt]ensor|ndarray)"
    r"\[(?P<dims>[A-Za-z_][\w+*/-]*(?:\s*,\s*[\w+*/-]+)*)\]"
)
_DEGREES = re.compile(r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)\s*(?:degrees?\b|deg\b|°)", re.IGNORECASE)  # fmt: skip
_TYPE = r"(?:u?int|integer|long|float|bool|boolean|complex)(?:\d+|s)?(?:\s+(?:arrays?|tensors?|vectors?))?"
_SHORT = 4  # letters: one of several dimensions in quotes has fewer, where words have more
_LONG = 4  # letters of a name that may be an English word
_ARTICLES = ("a", "A", "I", "an", "in", "is", "to", "of", "at", "as", "on", "by", "or")
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\bvs)(?<!\bcf)(?<!\.)[.;](?:\s+|$)")
# What makes a mention the start of a description.
_DESCRIBED = (
    r"(?=\s*(?:sizes?\b|shapes?\b|is\b|has\b|are\b|have\b|:|[(\[]|(?:of|with) shape|in [\[(]|[<>]))"
)
# `int counts (n,), bool surveyed (n,)`: the type stands before the next name.
_TYPE_OF_NEXT = re.compile(
    r"(?<=[,;])\s*(?:and\s+)?(?:an?\s+)?(?:u?int\d*|integers?|bool(?:ean)?|float\d*|string|str)\s*$",
    re.IGNORECASE,
)
_LIKENESS = re.compile(r"\bsame (?:shape|size|dimensions?) (?:as|of) (?:the )?$")
_ALIAS = {"input": 0, "inputs": 0}  # as torch's "Shape:" sections call the first parameter


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text about one parameter: what stands before its name and behind it."""

    before: str
    after: str
    entry: bool  # the name leads an entry of a list, and all of `after` is about it
    alone: str = ""  # of an entry: `after`, up to where it names another parameter
    own: str = ""  # of an entry of several parameters: what is said of this one, where that goes one by one
    kind_only: bool = False  # of Sphinx's `:type x:`
    common_word: bool = (
        False  # the name is an English word, too: only what follows at once is about it
    )

    is_signal: bool = False  # the name is one of what has one axis: a kernel, a signal


# `sharp, 0-d, in 1/V`, `a zero-dimensional tensor`
_NO_AXES = re.compile(
    r"(?<![\w.-])(?<!not )(?<!no )(?<!never )(?:0-?d(?:im(?:ensional)?)?|zero-?dim(?:ensional)?|rank[- ]?0(?=\s+(?:array|tensor|value)))(?![\w-])"
    r"(?!\s*(?:,|/|or|and|to)\s*(?:an?\s+)?(?:[1-9n]-?d\b|one|two|higher))(?:\s+(?:array|tensor|value)s?\b)?",
    re.IGNORECASE,
)

# `W/(m2 K)`: a unit, and no shape.
_PER_SEVERAL = re.compile(r"(?<=\w)/\((?P<units>[^\W\d][\w .·]*)\)")

# `kernel: int or (kh, kw)`: a window's two sizes, and no array of them.
_INT_OR_PAIR = re.compile(
    r"\bint(?:eger)?\s+or\s+\([^\W\d]\w*,\s*[^\W\d]\w*\)(?=\s*(?:[.,;)\n]|$))"
)


def plain(text: str) -> str:
    """The text without marks of RST, Markdown and LaTeX."""
    for old, new in ((_ROLE, r"\1"), *_LATEX):
        text = old.sub(new, text)
    text = _NO_AXES.sub("scalar", re.sub(r"``?([^`\n]+)``?", r"\1", text))
    text = _INT_OR_PAIR.sub("int or pair", text)
    text = _PER_SEVERAL.sub(lambda m: f"/{m['units'].replace(' ', '·')}", text)
    text = _in_radians(_TYPED.sub(r"\g<type> of shape (\g<dims>)", text))
    text = _with_brackets(text)
    return re.sub(r"(?<![\w*])\*{1,2}(\w+)\*{1,2}(?![\w*])", r"\1", text)


def _in_radians(text: str) -> str:
    """The text with angles in radians, where it says that these are meant: `in radians; |lat| up to 89 degrees`."""
    if "radian" not in text.lower() or "in degrees" in text.lower():
        return text
    return _DEGREES.sub(lambda said: f"{math.radians(float(said['number'])):.7g}", text)


def _with_brackets(text: str) -> str:
    """The text with brackets for quotes around dimensions; where there are some, entries have no others."""
    bracketed = _QUOTED.sub(_in_brackets, text)
    if bracketed == text:
        return text
    return _QUOTED_ENTRY.sub(lambda m: f"of shape ({', '.join(m['dims'].split())})", bracketed)


def _in_brackets(quoted: re.Match[str]) -> str:
    """Dimensions in quotes, as in `'h w c' array`, as a shape in brackets; other words as they are."""
    tokens = quoted["dims"].split()
    short = [token for token in tokens if len(token) < _SHORT]
    single = [token for token in tokens if len(token) == 1]
    sure = short if 2 * len(single) >= len(tokens) else ()
    brackets = f"({', '.join(tokens)})"
    is_shape = bool(short) and probable(brackets, sure) is not None
    return f"of shape {brackets}" if is_shape else quoted.group()


def passages(text: str, name: str, names: Sequence[str]) -> list[Passage]:
    """Entries first, then mentions in sentences."""
    lines = _lines_of(text, tuple(names))
    entries = list(_entries(lines, name, names))
    mentions = _mentions("\n".join(lines), name, names)
    return [*entries, *(m for m in mentions if not (entries and m.entry))]


@functools.lru_cache(maxsize=64)  # each parameter asks for them
def _lines_of(text: str, names: tuple[str, ...]) -> list[str]:
    """The lines of a text with an entry for each parameter, and without those of the results."""
    in_rows = with_colons(_without_the_result(text.expandtabs(4), names), names)
    written = spelled_out(shortened(in_one_word(in_rows, names), names), names)
    return _with_colons(_without_results(written.splitlines(), names), names)


def _without_the_result(text: str, names: Sequence[str]) -> str:
    """The text without shapes of what comes out; behind a parameter that stands alone, as in `the mean of x, (n, d)`, it is that one's."""
    of_one = re.compile(rf"[A-Za-z]\s+`*(?:{'|'.join(map(re.escape, names)) or '(?!)'})`*$")
    return _OF_THE_RESULT.sub(lambda m: m[0] if of_one.search(m[1]) else m[1], text)


def _without_results(lines: Sequence[str], names: Sequence[str]) -> list[str]:
    """The lines but those of sections about what the function gives back; `returns` may be a parameter's name."""
    kept: list[str] = []
    depth: int | None = None
    for i, line in enumerate(lines):
        underlined = (
            i + 1 < len(lines) and re.fullmatch(r"\s*[-=~]{3,}\s*", lines[i + 1]) is not None
        )
        indent = len(line) - len(line.lstrip())
        if _RESULTS.match(line) and line.split(":")[0].strip() not in names:
            depth = indent
            continue
        if depth is not None and line.strip():
            leaves = _SECTION.match(line) or underlined or re.match(r"\s*:(?:param|type|arg)", line)
            if leaves or (
                indent <= depth
                and not re.match(r"\s*[-=~]{3,}\s*$", line)
                and _blank_before(lines, i)
            ):
                depth = None
        if depth is None:
            kept.append(_without_arrow(line, names))
    return kept


def _without_arrow(line: str, names: Sequence[str]) -> str:
    """The line but for what it says to come out: `c: scalar -> (n,)`; an arrow behind a parameter tells of that, `x -> (n,)`."""
    arrow = _ARROW.search(line)
    if arrow is None or arrow["before"].strip("`*:") in names:
        return line
    end = _SENTENCE.search(line, arrow.end())
    return line[: arrow.end("before")] + ("" if end is None else line[end.start() :])


def _blank_before(lines: Sequence[str], i: int) -> bool:
    return i > 0 and not lines[i - 1].strip()


def _entries(lines: Sequence[str], name: str, names: Sequence[str]) -> Iterator[Passage]:
    others = "|".join(re.escape(n) for n in names if n != name) or r"(?!)"
    spelled = "|".join([re.escape(name), *_aliases(name, names)])
    listed = rf"(?:(?:{others}|\w+)\s*(?:,|/|and|&)\s*)*(?:{spelled})(?:\s*(?:,|/|and|&)\s*(?:{others}))*"
    head = re.compile(
        rf"^(?P<indent>\s*)(?:[-*•+]\s+|\d+[.)]\s+)?(?P<role>:(?:param|parameter|arg|argument|key|type)\s+(?:[\w.\[\]]+\s+)?)?"
        rf"\*{{0,2}}(?P<head>{listed})\s*(?P<type>\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])?\s*(?::|--?(?=\s)(?!\s+(?:and|or|to)\b)|[–—]|=(?=\s*[\[(]))(?P<rest>.*)$"
    )
    boundary = re.compile(rf"[,;.]?\s*(?<![\w.])(?:{others})\s*(?::(?!:)|\((?=[^()]*,))")
    mentioned = re.compile(_mention_of([n for n in names if n != name]).pattern + _DESCRIBED)
    for i, line in enumerate(lines):
        match = head.match(line)
        if match is None:
            continue
        cut = boundary.search(match["rest"])
        following = [] if cut else list(_deeper(lines[i + 1 :], len(match["indent"])))
        rest = match["rest"][: cut.start()] if cut else match["rest"]
        after = " ".join([match["type"] or "", rest.strip(), *following]).strip()
        after = _without_name(after, name)
        stop = mentioned.search(after)
        alone = after[: stop.start()] if stop else after
        yield Passage(
            "", after, entry=True, alone=alone, own=own_words(match["head"], after, name),
            kind_only=(match["role"] or "").startswith(":type"),
        )  # fmt: skip


def _with_colons(lines: Sequence[str], names: Sequence[str]) -> list[str]:
    """The lines, with a colon behind names that stand alone above what is said of them, as numpy's style has those without a type."""
    found = list(lines)
    for i, (line, below) in enumerate(itertools.pairwise(lines)):
        heads = [word.strip(" `*") for word in line.split(",")]
        deeper = len(below) - len(below.lstrip()) > len(line) - len(line.lstrip())
        if below.strip() and deeper and set(heads) <= set(names):
            found[i] = f"{line.rstrip()} :"
    return found


def _aliases(name: str, names: Sequence[str]) -> list[str]:
    """Other spellings of a parameter at the head of an entry: with a capital, or as `Input`."""
    capital = [name.capitalize()] if name[:1].islower() and len(name) > 1 else []
    first = bool(names) and names[0] == name and not set(_ALIAS) & {n.lower() for n in names}
    return [*capital, *(["Input", "input"] if first else [])]


def _deeper(lines: Sequence[str], indent: int) -> Iterator[str]:
    for line in lines:
        if not line.strip() or len(line) - len(line.lstrip()) <= indent:
            return
        yield line.strip()


def _mentions(text: str, name: str, names: Sequence[str]) -> Iterator[Passage]:
    """Each mention of the name, with its sentence up to other parameters before and behind."""
    others = [n for n in names if n != name and n not in _ARTICLES]
    other = _mention_of(others)
    beside = "|".join(map(re.escape, others)) or r"(?!)"
    listed = rf"^(?:\s*(?:,|/|&|,?\s*and)\s*(?:{beside})(?!\w))+"
    shared = re.compile(rf"{listed}(?=\s*(?::|(?:are|have|both|each|all)\b|\((?:both|all|each)))")
    shaped = re.compile(
        rf"{listed}(?=\s*(?:{_TYPE}\s+)?{BRACKETS})"
    )  # `q, k [N, D]`, `src, dst int (N,)`
    # In what is said of another one, `prior: a row for each breed, shape [breeds, k]`, a breed is none of ours.
    anyone = re.compile(rf"^\s*`*(?:{beside})`*\s*:.*\b(?:an?|each|every|per)\s+$")
    for sentence in _sentences(text, names):
        masked = _without_shapes(sentence)
        for match in re.finditer(rf"(?<![\w.\"'/-]){re.escape(name)}(?![\w'\"/])", masked):
            behind = sentence[match.end() :]
            leading = re.search(r"(?:^|[.,;:])\s*$", sentence[: match.start()])
            common = shared.match(behind) or (shaped.match(behind) if leading else None)
            behind = behind[common.end() :] if common else behind
            ahead = sentence[: match.start()]
            is_noun = anyone.match(ahead) and not re.match(r"\s*[(\[]", behind)
            if is_noun or (_NOUN_OF.search(ahead) and _QUOTES.match(behind)):
                continue
            stop = _stop(other, _without_shapes(behind))
            starts = [m.end() for m in other.finditer(_without_shapes(ahead))]
            leads = re.match(r"\s*:(?![:=])", behind) and re.search(
                rf"(?:^|[.,;(]|[)\]]\s+and\b)\s*(?:(?:{beside})\s*(?:,|/|&|and)\s*)*$", ahead
            )
            said = _TYPE_OF_NEXT.sub("", behind[: stop.start()]) if stop else behind
            alone = _with_property(said, behind, beside) if leads is not None else said
            yield Passage(
                "" if leads else ahead[starts[-1] if starts else 0 :],
                said,
                entry=leads is not None,
                alone=alone,
                common_word=name in _ARTICLES,
                is_signal=name in ("kernel", "signal", "filter", "window", "taps", "vec", "vector"),
            )


def _stop(other: re.Pattern[str], behind: str) -> re.Match[str] | None:
    """Where the words turn to another parameter, but for one that this is said to be like."""
    mentions = (m for m in other.finditer(behind) if not _is_part_of_a_noun(m, behind))
    return next((m for m in mentions if not _LIKENESS.search(behind[: m.start()])), None)


def _is_part_of_a_noun(mention: re.Match[str], text: str) -> bool:
    """Is it a word of another noun, as in `a vector of pitch classes`?"""
    long = len(mention.group()) >= _LONG and mention.group().isalpha()
    follows = re.match(r"\s+[a-z]{3,}s\b(?<!\bis)(?<!\bhas)", text[mention.end() :])
    return (
        long and follows is not None and re.search(r"\bof\s+$", text[: mention.start()]) is not None
    )


def _without_name(text: str, name: str) -> str:
    """`(> 0)` for `(dt > 0)` in an entry of `dt`."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}\s*(?=[<>≤≥])", "", text)


def _with_property(alone: str, behind: str, others: str) -> str:
    """With what follows the last of several: in `Q: (n, n) and R: (m, m) symmetric` both are symmetric."""
    several = re.match(
        rf"\s*:?\s*(?P<own>{BRACKETS})\s*(?:and|&)\s*(?:{others})\s*:?\s*{BRACKETS}(?P<said>[^,;.()]*)",
        behind,
    )
    return alone if several is None else f"{several['own']} {several['said'].strip()}"


def _mention_of(names: Sequence[str]) -> re.Pattern[str]:
    """Where one of the parameters is named, but for those that are articles and prepositions, too."""
    spelled = "|".join(re.escape(n) for n in names if n not in _ARTICLES) or "(?!)"
    return re.compile(rf"(?<![\w.\"'])(?:{spelled})(?![\w\"'])")


def _without_shapes(text: str) -> str:
    """The text with blanks where brackets hold dimensions: names in these are no mentions."""
    return re.sub(BRACKETS, lambda m: " " * len(m[0]) if stated(m[0]) else m[0], text)


def _sentences(text: str, names: Sequence[str]) -> list[str]:
    """Sentences and entries, each on one line."""
    heads = "|".join(re.escape(n) for n in names if n not in _ARTICLES) or "(?!)"
    paragraphs = re.split(
        rf"\n\s*\n|\n(?=\s*[-*•]\s)|\n(?=\s*:\w+)|\n(?=\s*(?:{heads})\s*[:(,])", text
    )
    joined = (" ".join(p.split()) for p in paragraphs)
    return [s for p in joined for s in SENTENCE_END.split(p) if s]
