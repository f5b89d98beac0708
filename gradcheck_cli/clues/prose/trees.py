"""Trees of arrays in words: "dict with w1 (din, dh), b1 (dh,)", "a pair of arrays of shapes (n, d) and (n,)"."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from gradcheck_cli.clues.prose.dims import BRACKETS, Dims, probable, stated
from gradcheck_cli.clues.prose.literal_trees import literal_tree

_Group = tuple[tuple[str, ...], Dims]  # keys, and the shape of each of them

_DICT = re.compile(
    r"\b(?:dict(?:ionary)?|mapping|pytree)\b|^\W*\{\s*['\"]?[A-Za-z_]\w*['\"]?\s*:", re.IGNORECASE
)
_TUPLE = re.compile(r"^[\W_]*(?:an?\s+|the\s+)?(?P<noun>tuple|pair|triple)\b", re.IGNORECASE)
_LIST = re.compile(r"^[\W_]*(?:an?\s+|the\s+)?(?:list|sequence)\b", re.IGNORECASE)
_COUNTS = {"pair": 2, "triple": 3}
# A tree of trees, of as many as nobody says.
_REPEATED = re.compile(
    r"\b(?:pairs|tuples|lists|dicts|per layer|each layer|layers)\b", re.IGNORECASE
)
_CLAUSE_END = re.compile(r";|\.\s")
# What such a name says is places, as `user_id` does.
_PLACES = re.compile(r"(?:\w+_)?(?:ids?|idx|index|indices|indexes)")
_NAMES = re.compile(
    r"\W*(?:of\s+|:\s*)?[\[(]\s*(?P<names>[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)+)\s*[\])]"
)
_KEY = r"['\"]?[A-Za-z_]\w*['\"]?"
_AND = r"\s*(?:,\s*and\s|,|\sand\s|/)\s*"
# `(h, c), both (batch, hidden)`: the names of a tuple's items, and what all of them are.
_ITEMS = re.compile(
    rf"^[\W_]*?(?P<names>\(\s*{_KEY}(?:\s*,\s*{_KEY})+\s*\))(?=\W*(?:both|each|all|two|three|arrays|tensors"
    r"|vectors|matrices|of shape|with)\b)",
    re.IGNORECASE,
)
_MANY = r"(?:arrays|vectors|tensors|matrices|weights|scalars)"
# `(k,) arrays 'a' and 'b'`: keys behind their shape, in quotes or to the end of a clause.
_KEYS_BEHIND = re.compile(
    rf"\W*?(?:(?:float\w*|shaped)\s+)*(?:{_MANY}|array|vector|tensor|matrix)?[\s:]*(?:(?:named|called|under|for)\s+)?"
    rf"(?P<keys>['\"]\w+['\"](?:{_AND}['\"]\w+['\"])*)(?!\s*:)"
)
# `dict of (C,) "sat", "depress" (> 0)`: the one shape of all, and what is said of each behind its key.
_ONE_FOR_ALL = re.compile(
    rf"\b(?:of|with)\s+(?P<dims>{BRACKETS})(?:\s+{_MANY}[\s:]*)?(?P<keys>(?:\s*(?:,|,?\s*and)?\s*['\"]\w+['\"](?:\s*\([^()]*\))?){{2,}})\W*$"
)
# `{"ps", "alpha"}, each (C,)`: the keys of all in braces, and the one shape behind.
_KEYS_IN_BRACES = re.compile(
    rf"^\W*\{{(?P<keys>\s*['\"]\w+['\"](?:\s*,\s*['\"]\w+['\"])+\s*)\}}\W*(?:(?:all|each|both)\s+)?(?:are\s+)?(?:of\s+)?(?:shape\s+)?(?P<dims>{BRACKETS})"
)
_QUOTED = re.compile(r"['\"](\w+)['\"]")
_BARE_KEYS_BEHIND = re.compile(
    rf"\W*?(?:(?:float\w*|shaped)\s+)*{_MANY}[\s:]*(?:(?:named|called|under|for)\s+)?"
    rf"(?P<keys>[A-Za-z_]\w*(?:{_AND}[A-Za-z_]\w*)+)(?=\s*[.;)]|\W*$)"
)
_KEYS = re.compile(
    rf"(?<![\w.])(?P<keys>{_KEY}(?:{_AND}{_KEY})*)"
    r"\s*(?::|=|->|,?\s*(?:(?:each|both|all)\s+)?(?:of|with|has|have)\s+shapes?|\b(?:is|are)\b)?\s*(?:array\s*|f32)?['\"]?$"
)
_NO_KEYS = frozenset({
    "shape", "shapes", "of", "with", "keys", "dict", "dictionary", "mapping", "and", "or", "has", "array", "arrays",
    "tensor", "tensors", "tuple", "pair", "list", "entries", "weights", "parameters", "f32", "in", "is", "are", "to", "like",
    "each", "both", "all", "the", "a", "an", "triple", "holding", "containing", "have",
})  # fmt: skip


def tree(text: str, certain: Collection[str] = ()) -> str:
    """The spec of a dict, tuple or list whose items' shapes are all said; nothing otherwise.

    `certain` are names of the text that are dimensions for sure.
    """
    if _KEYS_IN_BRACES.search(text):
        return _dict(_one_for_all(text, certain))
    if _DICT.search(text[:60]):
        groups = (
            _groups_with_keys_behind(text) or _one_for_all(text, certain) or _groups(text, certain)
        )
        return literal_tree(text) or _dict(groups)
    items, repeated = _ITEMS.search(text), _REPEATED.search(_CLAUSE_END.split(text)[0])
    if items is not None and not repeated:
        return _tuple("", text[items.start("names") :], certain)
    match = _TUPLE.search(text)
    if match is not None and not repeated:
        rest, noun = text[match.end() :], match["noun"].lower()
        return _tuple(noun, rest, certain) or _tuple(noun, _CLAUSE_END.split(rest)[0], certain)
    if _LIST.search(text) and not repeated:
        return _written(
            "[]", [dims for keys, dims in _groups(text, certain) for _ in keys or ("",)]
        )
    return ""


def _dict(groups: Sequence[_Group]) -> str:
    items = {key: dims for keys, dims in groups for key in keys}
    if not items or not all(keys for keys, _ in groups):
        return ""
    return f"{{{', '.join(f'{key}: f32[{dims.text}]' for key, dims in items.items())}}}"


def _one_for_all(text: str, certain: Collection[str]) -> list[_Group]:
    """The one shape of a dictionary's arrays, with all of their keys, behind it or in braces before."""
    text = _CLAUSE_END.split(text)[0]
    said = _ONE_FOR_ALL.search(text) or _KEYS_IN_BRACES.search(text)
    dims = None if said is None else probable(said["dims"], certain)
    shapes = [each for each in re.findall(BRACKETS, text) if (d := stated(each)) and d.names]
    if said is None or dims is None or dims.is_open or len(shapes) > 1:
        return []
    return [(tuple(_QUOTED.findall(said["keys"])), dims)]


def _groups_with_keys_behind(text: str) -> list[_Group]:
    """Shapes with the keys behind them; none at all where one shape has no keys there."""
    groups: list[_Group] = []
    for match in re.finditer(BRACKETS, text):
        following = text[match.end() :]
        behind = _KEYS_BEHIND.match(following) or _BARE_KEYS_BEHIND.match(following)
        dims = stated(match.group())
        if behind is None or dims is None or dims.is_open:
            return []
        keys = tuple(key.strip("'\"") for key in re.split(_AND, behind["keys"]))
        groups.append((keys, dims))
    return groups


def _tuple(noun: str, text: str, certain: Collection[str]) -> str:
    """A tuple whose items may be named first: `(w, b) with w (n, k) and b (k,)`, `(h, c), each (b, d)`."""
    named = _NAMES.match(text)
    names = [] if named is None else [n.strip() for n in named["names"].split(",")]
    groups = _groups(text if named is None else text[named.end() :], certain)
    if named is not None and not groups:  # no names, but the one shape: a pair of (n, d) arrays
        names, groups = [], _groups(text, certain)
    shapes = {key: dims for keys, dims in groups for key in keys}
    if names and set(names) <= set(shapes):
        return _written("()", [shapes[name] for name in names], names)
    each = [dims for _, dims in groups]
    count = len(names) or _COUNTS.get(noun, 0)
    if len(each) == 1 and count and re.search(r"\b(?:each|both|all|arrays|tensors)\b", text):
        return _written("()", each * count, names)
    return _written("()", each, names) if not names or len(each) == len(names) else ""


def _written(ends: str, shapes: Sequence[Dims], names: Sequence[str] = ()) -> str:
    """At least two shapes as a spec; what is named as places are is integers."""
    if len(shapes) < 2:
        return ""
    kinds = ["i32" if _PLACES.fullmatch(name.lower()) else "f32" for name in names]
    items = zip(kinds or ["f32"] * len(shapes), shapes, strict=True)
    return f"{ends[0]}{', '.join(f'{kind}[{dims.text}]' for kind, dims in items)}{ends[1]}"


def _groups(text: str, certain: Collection[str]) -> list[_Group]:
    """Shapes with the keys before them; none at all if one of them is not understood."""
    groups: list[_Group] = []
    start = 0
    for match in re.finditer(BRACKETS, text):
        lead, start = text[start : match.start()].rstrip(), match.end()
        said = re.search(r"(?:shapes?|\b(?:each|both|all))\W*$", lead) is not None or (
            groups and re.fullmatch(r"\W*(?:and)?\W*", lead)
        )
        keys = _keys(lead) or _short_key(lead, text[match.end() :])
        sure = said or (keys and match.group() == "()")
        dims = stated(match.group()) if sure else probable(match.group(), certain)
        if dims is None or dims.is_open or not (dims.names or keys):
            return []
        groups.append((keys, dims))
    return groups


def _short_key(lead: str, following: str) -> tuple[str, ...]:
    """The key `a` of `w (n, k), a (n, r)`, which is an article before a noun: `a (n, r) array`."""
    match = re.search(r"(?:^|[,;(]|\b(?:and|with))\s*(?P<key>[aA])$", lead)
    is_article = re.match(rf"\s*(?:{_MANY}|array|vector|tensor|matrix)", following)
    return () if match is None or is_article else (match["key"],)


def _keys(lead: str) -> tuple[str, ...]:
    """The keys at the end of the words before a shape: `bz` and `br` of `with bz, br`."""
    match = _KEYS.search(lead)
    if match is None:
        return ()
    words = [w.strip("'\"") for w in re.split(_AND, match["keys"])]
    for i in range(len(words) - 1, -1, -1):
        if words[i] in _NO_KEYS:
            return tuple(words[i + 1 :])
    return tuple(words)
