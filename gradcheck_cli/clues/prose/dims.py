"""Dimensions between brackets: `(batch, dim)`, `[B, T, D]`, `(..., n)`, `n x k`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection
from dataclasses import dataclass

BRACKETS = r"(?:\([^()\[\]]*\)|\[[^()\[\]]*\])"
LEADING = "lead"  # the one axis that stands for any number of them

_MOST_RANK = 6
_LARGEST = 32  # larger numbers are examples: they get a name, and with it a small size
_MANY = 3  # where more are said, one of them may have a name of its own: `(kh, kw, channels, multiplier)`
_WAYS, _ENDS = ("in", "out"), ("from", "to")  # `(in, out)`, `[out in]`; `(to, from)`
_ANY_SIZE = ("None", "?", "-1", "_")
_NUMBER_OR_NAME = r"(?:\d{1,6}|[^\W\d]\w{0,23})"
_DIM = re.compile(rf"{_NUMBER_OR_NAME}(?:(?:\*\*?|//|\+|-){_NUMBER_OR_NAME})*")
_TYPE = re.compile(r"\w*(?:[tT]ensor|[aA]rray)s?|Variable|Parameter|u?int\d+|b?float\d+")
_NO_DIMS = frozenset({
    "the", "of", "as", "a", "an", "and", "or", "to", "is", "are", "same", "see", "optional", "float", "int", "str",
    "bool", "array", "tensor", "ndarray", "default", "shape", "like", "scalar", "none", "positive", "required",
    "learned", "learnable", "for", "with", "in", "number", "boolean", "string", "callable",
})  # fmt: skip
# What is a size wherever it stands in brackets.
_USUAL = re.compile(
    r"""[a-z]\d*_?|[a-z]_[a-z\d]{1,4}|(?:n|num|d|dim|h|c|len|size)_\w+|\w+_(?:dims?|size|len|length|features|channels|in|out|heads)
    |batch\w*|bs|bsz|dims?|d_?model|d(?:in|out|from|to|h|k|v|q|ff)|(?:in|out)?_?features?|hidden|seq|seqlen|sequence\w*|time\w*|steps?
    |tokens?|heads?|(?:in|out)?_?channels?|height|width|depth|length|(?:num_?)?class(?:es)?|vocab\w*|embed\w*|emb|groups?|rows?
    |col(?:umn)?s|samples?|points|nodes?|edges?|quer(?:y|ies)|keys|kernel\w*|k[hwd]|units?|inputs?(?:_\w+)?|outputs?(?:_\w+)?|state|obs|actions?
    |(?-i:[A-Z][a-z])|[oips][hw]|(?-i:[BCDFHIKLMNOPQSTV][BCDHKLNQSTVW])|cin|cout|hw|bands?|layers?|particles?|atoms?|experts?|segments?|frames?|bins?|knots?|windows?|taps|data|examples?|items?|latent\w*
    |n(?:x|y|z|t|k|s|p|e|f|w|h|b|c|d|m|n|r|u|v|q|col|row|lev|lat|lon|chan|spec|band|mode|atom|step|layer|bin|obs|site|pt|point|node|face|cell|edge|ch|freq|seq|tok|head|samp|item|user|var|dim|feat|res|bond|spin|orb|basis|wave|lag|knot|ray|pix)s?
    |nnz|tags|species|reactions|states|labels|words|symbols|chars|phon(?:em)?es|speakers|users|topics|components|mixtures|clusters|modes|sites|bonds|freq(?:uencie)?s|lags""",
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip
_BATCH = re.compile(r"batch(?:_size)?", re.IGNORECASE)
_OF_MAPS = re.compile(r"lat(?:itude)?s?|lon(?:gitude)?s?|lev(?:el)?s?|height|width", re.IGNORECASE)
PLURAL = re.compile(r"[a-z]{2,}[^\Ws\d]s")  # what an axis goes along
_ONE_NUMBER = re.compile(r"\(\s*(?:[2-9]|[12]\d)\s*,\s*\)")  # `(3,)`: nobody writes a number so
_YEAR = re.compile(r"n(?:19|20)\d\d")  # of a paper: `(Wu, 2018)`
# Tuples of numbers by their components: coordinates, bounds, moments.
_COMPONENTS = (
    {"w", "x", "y", "z"}, {"i", "j", "k", "r", "w", "x", "y", "z"}, {"x1", "y1", "x2", "y2"}, {"x0", "y0", "x1", "y1"},
    {"cx", "cy", "w", "h"}, {"a", "b"}, {"r", "g", "b"}, {"x", "y", "w", "h"}, {"u", "v"}, {"x", "t"}, {"i", "j", "k", "l"},
    {"p", "q"}, {"s", "t"},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dims:
    """The axes of an array; `...` among them stands for any number."""

    names: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        return "..." in self.names

    @property
    def text(self) -> str:
        """The axes in a spec, with one for those whose number is left open."""
        return " ".join(LEADING if name == "..." else name for name in self.names)

    @property
    def ends(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The axes before and behind those whose number is left open; none where all are named."""
        if not self.is_open:
            return (), ()
        at = self.names.index("...")
        return self.names[:at], self.names[at + 1 :]

    @property
    def least_rank(self) -> int:
        return len(self.names) - 1 if self.is_open else 0


def stated(written: str) -> Dims | None:
    """Dimensions where the text says that they are a shape; None if they cannot be."""
    inner = written.strip()
    inner = inner[1:-1] if inner[:1] in ("(", "[") else inner
    names: list[str] = []
    tokens = _tokens(inner)
    is_pair = tokens == ["from", "to"]  # the two ends of something
    both_ways = (*_WAYS, *_ENDS) if "," in inner and not is_pair else _WAYS
    tokens = [f"d{token}" if token in both_ways else token for token in tokens]
    for token in tokens:
        name = f"any{len(names)}" if token in _ANY_SIZE else _name(token)
        if name is None:
            return None
        names.append(name)
    if len(names) > _MOST_RANK or names.count("...") > 1 or names == ["..."]:
        return None
    return Dims(tuple(names))


def probable(written: str, elsewhere: Collection[str] = ()) -> Dims | None:
    """Dimensions where nothing says that they are a shape: such as are sizes by what they are called.

    `elsewhere` are the names that are dimensions for sure.
    """
    dims = stated(written)
    if dims is None or not dims.names:
        return None
    names = [name for name in dims.names if name != "..."]
    leads = dims.names[0] == "..." and all(name.isidentifier() for name in names)
    maps = len(names) > _MANY and _BATCH.fullmatch(names[0]) and any(map(_OF_MAPS.fullmatch, names))
    # Nobody writes `(..., docs)` or `[batch, variable, lat, lon]` of anything else.
    if leads or maps or _ONE_NUMBER.fullmatch(written):
        return dims
    if any(_YEAR.fullmatch(name) for name in names):
        return None
    lowered = {name.lower() for name in names}
    sure = len(names) == 1 and names[0] in elsewhere
    if (all(name.isdigit() for name in names) and not dims.is_open) or (
        not sure and any(lowered <= parts for parts in _COMPONENTS[:1])
    ):
        return None
    if len(names) > 1 and any(set(names) == parts for parts in _COMPONENTS):
        return None
    if {"x", "y"} <= lowered:
        return None
    if len(dims.names) == 1 and "," not in written:
        (name,) = names
        return dims if name in elsewhere or (len(name) > 2 and _USUAL.fullmatch(name)) else None
    words = [w for name in names for w in re.findall(r"[^\W\d]\w*", name)]
    unusual = {w for w in words if w not in elsewhere and not _USUAL.fullmatch(w)}
    if unusual != set(words):  # `(batch, quantiles)`: beside a usual one, what an axis goes along
        unusual = {word for word in unusual if not PLURAL.fullmatch(word)}
    most = 1 if len(words) > _MANY and "," in written else 0
    return dims if len(unusual) <= most else None


def _tokens(inner: str) -> list[str]:
    inner = inner.strip().rstrip(",")
    if "," in inner:
        return [token.strip() for token in inner.split(",")]
    if re.search(r"×|\s[xX]\s|^[A-Z\d]x[A-Z\d]", inner):
        return [token.strip() for token in re.split(r"×|\s[xX]\s|(?<=[A-Z\d])x(?=[A-Z\d])", inner)]
    if re.search(r"[-+*/]", inner) and "..." not in inner and not inner.startswith("*"):
        return [inner]
    return inner.split()


def _name(token: str) -> str | None:
    """One dimension as a spec has it; `...` for any number of axes, None for what is none."""
    if token.strip(' `"').endswith(("...", "…")) or token.startswith(("...", "…", "*", "∗")):
        return "..."
    if re.fullmatch(r"(['\"]).*\1", token):
        return None
    token = token.strip(' `"').removeprefix("'").rstrip(".").strip("|")
    token = re.sub(r"\s*(\*\*?|//?|\+|-)\s*", lambda m: "//" if m[1] == "/" else m[1], token)
    token = re.sub(r"^(\d+)([A-Za-z]\w*)$", r"\1*\2", token).replace("'", "_")
    token = re.sub(r"(?i)^(?:number|nr|no\.?) of (\w+)$", r"num_\1", token)
    words = re.split(r"[ -]", token)
    if len(words) in (2, 3) and all(len(w) > 1 and w.isalpha() for w in words):
        token = "_".join(words)
    parts = re.findall(r"\w+", token)
    if not _DIM.fullmatch(token) or any(
        _TYPE.fullmatch(w) or (w.lower() in _NO_DIMS and w != "A") for w in [*parts, *words]
    ):
        return None
    if token.isdigit():
        return token if int(token) <= _LARGEST else f"n{int(token)}"
    return f"{token}_" if keyword.iskeyword(token) else token
