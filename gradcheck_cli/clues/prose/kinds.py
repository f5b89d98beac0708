"""Sorts of arguments in words: "(int, optional)", "class indices", "boolean mask", "one of 'mean' or 'sum'"."""

from __future__ import annotations

import re

from gradcheck_cli.inputs.clue import Kind

_LEAD = r"^[\W_]*(?:(?:an?|the|optional|python|plain|single|positive|non-?negative|non-?zero|small|real|static|learned|learnable|trainable)\s+)*"
# What stands in brackets behind a sort, `bool (static, not traced)`, may say no shape.
_AN_AXIS = r"(?!(?:optional|default|static|not|required|keyword)\b)"
# `integer unit of each slice`: as many as there are of these, and no number of something.
_OF_EACH = r" (?!(?:number|count|seed|degree|multiple|order|size|power|step)s?\b)[a-z]+ (?:of|for) (?:each|every)\b"
_SORTS = tuple(
    (kind, re.compile(_LEAD + pattern, re.IGNORECASE))
    for kind, pattern in (
        (Kind.SHAPE,
         r"(?:(?:tuple|sequence|list)s? of (?:(?:[A-Za-z]|n_\w+|num_\w+|python) )?int(?:eger)?s?|(?:tuple|sequence"
         r"|list)\[int\b|torch\.size)"),
        (Kind.WHOLE,
         r"(?:int|integer(?!" + _OF_EACH + r"))\b(?![\w.]|\s*(?:\((?:\.\.\.|\w+\s*,)|,\s*(?:the )?same shape|arrays?|tensors?|vectors?|or\s(?!(?:an?\s+)?(?:pair|tuple)s?\b(?!\s+of\s+(?:arrays?|tensors?)))|\||labels?|indices"
         r"|ids|class|mask|matri|of shape|jax|ndarray|\[|(?:edge|node|index|id) lists?))"
         r"|(?:the )?index of (?:the|a|an)\b(?! (?:each|every|row))"),
        (Kind.FLAG, r"(?:bool|boolean)\b(?!,?\s*broadcast)(?!,?\s*\((?:\.\.\.|" + _AN_AXIS + r"\w+\s*,))(?!\s*(?:tables?\b|,\s*(?:the )?same shape|arrays?|tensors?|vectors?|masks?|or\s|\||matri|of (?:the )?(?:same )?shape|of `*\w+`*(?:'s|')? shape|\[))"),
        (Kind.WORD, r"(?:str|string)\b(?!\s*(?:or\s|\||array|\[))"),
        (Kind.FUNCTION, r"(?:callable|function)\b(?! values?)"),
        (Kind.DTYPE, r"(?:[\w.]+\.)?dtype\b"),
        (Kind.NUMBER,
         r"(?:(?:float|floating[- ]point number|real number)\b(?!\w|\s*(?:\((?:\.\.\.|\w+\s*,)|arrays?|tensors?"
         r"|vectors?|or\s|\||matri|values|jax|ndarray|\[|of shape|,\s*(?:arrays?|tensors?"
         r"|shape)))|scalars?\b(?!\s*(?:or\b|/|\||,? array|field|function|valued|tensors? or"
         r"|-)))"),
        (Kind.TREE, r"(?:(?:dict|dictionary|mapping|pytree|tuple|list|sequence|pair|triple|nested)\b"
         r"|\{(?=\s*['\"]?[A-Za-z_]\w*['\"]?\s*:))"),
    )
)  # fmt: skip
_BOOLEANS = re.compile(
    r"\b(?:bool|booleans?|bool_|booltensor|binary masks?)\b|^\W*(?:(?:is|are)\s+)?(?-i:True|False)\b(?=\s+(?:where|for|at|if|when|on|marks?)\b)",
    re.IGNORECASE,
)
_INTEGERS = re.compile(
    r"\b(?:u?int(?:\d+)?|integers?|whole numbers?|longtensor|int(?:32|64)?tensor)\b"
    # the dtype, not the word: `torch.long`, `(long)`, `long tensor`
    r"|\btorch\.long\b|(?:^|[(,])\W*long\b(?! as\b)|\blong (?:tensor|array|vector)",
    re.IGNORECASE,
)
# Whatever the numbers are, they come as floats: `integer indices as a float tensor`.
_AS_FLOATS = re.compile(
    r"\b(?:integers?|ints?|indices|ids|labels?|0/1|bool(?:ean)?s?|masks?)\b(?:\s+0/1)?,? as (?:an? )?(?:floats?(?:\d+)?|floating[- ]point)\b(?! or)",
    re.IGNORECASE,
)
_INTEGERS_FIRST = re.compile(
    r"\W*(?:u?int\d*|integers?|whole numbers?)\b(?!-| or\b|\s*(?:0/1|in \{)|,?\s*one)",
    re.IGNORECASE,
)
_ONE_OF_EACH = re.compile(r"\W*integer" + _OF_EACH, re.IGNORECASE)
# The dtype of an array leads, `int64, the bag of each crop`: one for each of several.
_DTYPE_FIRST = re.compile(
    r"\W*u?int(?:8|16|32|64)\s*[,:;-]\s[^.;]*\b(?:(?:of|for|per)\s+(?:each|every)|per\s+[a-z]+)\b"
)
_LABELS = re.compile(
    r"\b(?:indices|indexes|ids|labels?|(?:class|token|segment|cluster|bin|row|column|node"
    r"|edge) (?:index|numbers?))\b",
    re.IGNORECASE,
)
_HEAD_ENDS = re.compile(r"\b(?:of|for|per|with|whose|where|to|at|that|from|by|indexed)\b|[.;]\s")
_NO_INTEGERS = re.compile(
    r"\b(?:soft|one-?hot|smooth(?:ed|ing)?|float\w*|probabilit\w+|binary|real|logits?"
    r"|scores?|per|representing|categorical|quantized|quantised|label of|indexed"
    r"|weights?)\b|[01],\s*\+?1\s*\}|\+/-|±|0/1|0 or 1",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"(?:\bin\s*|∈\s*|\bfrom\s+|\bbetween\s+|\brange\s*(?:of\s+)?|^\W*|,\s*|values\s+"
    r"|\()[\[{(]?\s*0\s*(?:,\s*(?:1\s*,\s*)?(?:\.\.\.|…)\s*,?|\.\.\.?|…|,|to|and"
    r"|<=\s*\w+\s*<)\s*(?P<last>[^\W\d]\w*|\d+)\s*(?P<less>-\s*1)?(?P<end>\s*[)\]}])?"
)
# Each integer with what it means, `1 for foreground, 0 for background`, `0 (won), 1 (lost)`, or all in a row: `-1, 0 or 1`.
_MEANING = re.compile(
    r"(?<![\w.+-])(?P<number>[+-]?\d)\s*(?:=|:|\(|\b(?:for|means?|if|where|marks?|stands for|is)\b)",
    re.IGNORECASE,
)
# Right behind the last of them: `1 for the first, 2 for the second and so on`.
_GOES_ON = re.compile(rf"{_MEANING.pattern}[^.;()\d]*?\band so (?:on|forth)\b", re.IGNORECASE)
_IN_A_ROW = re.compile(
    r"(?<![\w.+-])(?P<numbers>[+-]?\d(?:\s*,\s*[+-]?\d)*\s*,?\s*(?:or|and)\s+[+-]?\d)(?![\w.])"
    r"|\{\s*(?P<set>[+-]?\d(?:\s*,\s*[+-]?\d)+)\s*\}"
)
# Digits that count axes, columns or equations are no values: `dim 0 (batch), dim 1 (time)`, `Axes: 0 = batch, 1 = time`.
_PLACES = re.compile(
    r"\b(?:axis|axes|dim(?:ension)?s?|columns?|rows?|channels?|coordinates?|components?|index|ind(?:ices|exes)|eqs?|equations?"
    r"|fig(?:ure)?s?|sec(?:tion)?s?|steps?|tables?|layers?|versions?|arguments?|entr(?:y|ies)|plac(?:e|es))\b\.?\W{0,3}\(?\d",
    re.IGNORECASE,
)
# What says that numbers are the values of an array, and no text about it.
_VALUED = re.compile(
    r"\b(?:labels?|codes?|class(?:es)?|values?|one of|either|outcomes?|states?|kinds?|flags?|encod\w+)\b|(?:^|\bwith|\bin|:)\W*0\b",
    re.IGNORECASE,
)
_CODES = 3  # so many are no zeros and ones, which may be floats
_BETWEEN = re.compile(
    r"0\s*(?:<=|≤)\s*[\w\[\].]+\s*(?:<=|≤|<)\s*(?P<last>[^\W\d]\w*)\s*(?P<less>-\s*1)?(?P<end>)"
)
_FLOATS = re.compile(
    r"\b(?:float\w*|real|additive|soft|added|weights?|binary|logits|probabilit\w+"
    r"|fraction\w*)\b|\b(?:wave|reciprocal|unit|direction) ?vectors?\b|0/1|0 or 1|\{\s*0|,\s*1/[A-Za-z]\w*\W*$",
    re.IGNORECASE,
)
_AT_LEAST = re.compile(
    r"(?:\bat least|>=|≥)\s*(?P<least>[1-9]|one\b)|(?<![\w.])(?P<low>[1-9])\s*(?:<=|≤)\s*[a-z]",
    re.IGNORECASE,
)
_AT_MOST = re.compile(r"(?:<=|≤|\bat most|\bup to)\s*(?P<most>[^\W\d]\w*)\s*(?![-+*])")
_FROM_ONE = re.compile(
    r"(?:\bfrom\s+|\bbetween\s+|\bin\s*[\[(]?)1\s*(?:to|and|,|\.\.+|…|up to|through)\s*(?P<most>[^\W\d]\w*)\s*(?![-+*])"
)
# `the strings counted from one`: then no place is 0, unless the text speaks of that, too.
_BASED_ON_ONE = re.compile(
    r"\b(?:count(?:ed|ing)|number(?:ed|ing)|index(?:ed|ing))\s+(?:at|from)\s+(?:one|1)\b(?![.,]?\d)|\b(?:one|1)-(?:based|indexed)\b",
    re.IGNORECASE,
)
_SPEAKS_OF_ZERO = re.compile(
    r"\bnot\s+(?:1|one|always|necessarily)\b|(?<!not from )\bzero|(?<![\d.])0(?![.\d])|\bpad|\bbackground\b|\bblank\b|\bshift|\bconver",
    re.IGNORECASE,
)
_LENGTHS = re.compile(r"(?:\w+_)?len(?:gth)?s?")
# What lengths count, where they are not those of bonds, arms or waves.
_COUNTED = re.compile(
    r"\b(?:seq|sequences?|tokens?|frames?|(?:time )?steps|padd\w+|padding|valid|real rows|labels?|logits?"
    r"|input_len\w*|target_len\w*|at least (?:one|1)|how many)\b|^(?:seq|input|target|label|src|tgt|kv|q|frame|feature|text|token|mel|audio|query|key|hyp|ref|doc|list|row|sample)_",
    re.IGNORECASE,
)
_MAY_BE_EMPTY = re.compile(r"\b(?:zero|empty|0)\b")
_NEVER = re.compile(
    r"\b(?:never|excluding|other than|except|without)\s+(?:the\s+)?(?P<name>[a-z]\w*)\b"
)
_QUOTED = re.compile(r"['\"]([A-Za-z_][\w-]*)['\"]")
_EXAMPLE = re.compile(
    r"(?:\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\blike\b|\bexample:)[\s,:`]*(?P<quote>['\"])(?P<string>[^'\"\n]+)(?P=quote)",
    re.IGNORECASE,
)
# What is said of a word stands in brackets behind it: `"causal" (of the past) or "same"`.
_CHOICE = re.compile(
    r"['\"}]\s*(?:\([^()]*\)\s*)?(?:\||/|,|or\b|and\b|:)|one of|either|\{\s*['\"]", re.IGNORECASE
)


def sort_of(text: str) -> Kind:
    """The plain sort that an entry begins with: `int, how many`, `(float)`, `()`; nothing for arrays."""
    if re.match(r"\W*(?:(?:of )?shape\s*)?\(\s*\)(?!\s*(?:or\b|/|\||int|bool))", text):
        return Kind.NUMBER
    if re.match(r"[^,.;()\[\]]*,\s*(?:an?\s+)?(?:scalar|float)(?=\s*(?:$|[,.;)><]|in\b))", text):
        return Kind.NUMBER
    return next((kind for kind, pattern in _SORTS if pattern.search(text)), Kind.NOTHING)


_RETURNS = re.compile(r"\s*(?:->|→)")  # and what it gives
_AN_ARRAY = re.compile(
    r"(?:an?\s+)?(?:int(?:eger)?|bool(?:ean)?|float)\w*\s+(?:(?:tables?|arrays?|tensors?|vectors?|matri(?:x|ces)|grids?|maps?)\b|(?:of\s+shape\s+`*)?[(\[]\w+(?:\s*,|\]))",
    re.IGNORECASE,
)


def sort_in_sentence(before: str, after: str) -> Kind:
    """The plain sort that a sentence gives: `the scalar c`, `axis (an int)`, `track ()`, `dt and dx are floats`."""
    if re.search(r"\bscalar\s*$", before) or re.match(
        r"\s+\(\s*\)(?!\s*or\s*\(\s*\w+\s*[,)])", after
    ):
        return Kind.NUMBER
    match = re.match(r"\s*(?:\((?P<inner>[^()]*)\)|(?:(?:is|are|:|(?:in\s+[\w/%°^²³·-]{1,8})?,)\s+(?:both\s+|all\s+)?|(?=an?\s|scalars?\b))(?P<clause>[^.;]*))", after)  # fmt: skip
    if match is None:
        return Kind.NOTHING
    said = _RETURNS.split(match["inner"] or match["clause"] or "")[0]
    if _AN_ARRAY.match(said):
        return Kind.NOTHING
    said = re.sub(
        r"^(an?\s+)?(ints|integers|floats|scalars|bools|booleans|strings)\b",
        lambda m: m[2][:-1],
        said,
    )
    sort = sort_of(said)
    return sort if sort in (Kind.NUMBER, Kind.WHOLE, Kind.FLAG, Kind.WORD, Kind.FUNCTION) else Kind.NOTHING  # fmt: skip


def element_kind(text: str) -> str:
    """The dtype of an array, as a spec has it, from what is said beside its shape."""
    if _AS_FLOATS.search(text):
        return "f32"
    if _BOOLEANS.search(text):
        return "bool"
    head = _HEAD_ENDS.split(text)[0]
    if _BETWEEN.search(text) or _INTEGERS_FIRST.match(text) or _lists_codes(text):
        return "i32"
    whole = _INTEGERS.search(text.split(". ", maxsplit=1)[0]) or _LABELS.search(head)
    return "i32" if whole and not _NO_INTEGERS.search(text) else "f32"


def array_of_integers(text: str) -> bool:
    """Does an entry without a shape begin with integers of an array: `class labels`, `an int array`?"""
    head = " ".join(_HEAD_ENDS.split(text)[0].split()[:6])
    plain = re.search(r"\b(?:if|or|returns?|whether|single|when)\b", head, re.IGNORECASE)
    whole = _LABELS.search(head) or re.match(r"\W*integers\b", head) or re.search(r"\b(?:int\w*|integer) (?:array|tensor|vector)|\blongtensor|\b(?:array|tensor|vector)s? of int", text[:60], re.IGNORECASE)  # fmt: skip
    whole = whole or _ONE_OF_EACH.match(text) or _DTYPE_FIRST.match(text)
    return bool(whole) and plain is None and not _NO_INTEGERS.search(text)


def array_of_booleans(text: str) -> bool:
    """Does an entry without a shape begin with a mask: `boolean mask`, `bool array`?"""
    return re.search(r"\b(?:bool\w*|binary) (?:mask|array|tensor|vector|table)|\bbooltensor|^\W*bool\w*,? \(" + _AN_AXIS + r"(?:\w+, ?)+\w+\)", text[:60], re.IGNORECASE) is not None  # fmt: skip


def named_kind(name: str, dtype: str, about: str) -> str:
    """The dtype by the parameter's name, where the text leaves it open: `ids`, `mask`."""
    if dtype != "f32" or _FLOATS.search(about):
        return dtype
    lowered = name.lower().strip("_")
    if re.fullmatch(r"(?:\w+_)?(?:ids?|idx|index|indices|indexes)", lowered):
        return "i32"
    if _LENGTHS.fullmatch(lowered) and _COUNTED.search(f"{lowered} {about}"):
        return "i32"
    return "bool" if re.fullmatch(r"(?:\w+_)?masks?|where", lowered) else dtype


def integer_range(text: str) -> str:
    """`in 0..C` where integers are said to lie in it, or between those that are listed, or nothing."""
    listed = _range_of_listed(text)
    match = _RANGE.search(text) or _BETWEEN.search(text)
    if match is None or listed.startswith("in -"):
        return listed
    last, closed = match["last"], (match["end"] or "").strip() == "]"
    if last.isdigit():
        beyond = int(last) + (1 if closed else 0)
        return f"in 0..{beyond}" if beyond > 1 else ""
    return f"in 0..{last}"


def greatest_length(name: str, text: str) -> str:
    """`in 1..T` for lengths that are said to be `<= T`, or `from 1 to T`: what is padded has a beginning."""
    match = _AT_MOST.search(text) or _FROM_ONE.search(text)
    counts = match is not None and _LENGTHS.fullmatch(name) is not None
    return f"in 1..{match['most']}" if match is not None and counts else ""


def never(text: str) -> str:
    """The name of what integers never are: `padded with anything valid; never blank`."""
    match = _NEVER.search(text)
    return "" if match is None else match["name"]


def least_integer(name: str, text: str) -> int:
    """The least that integers are said to be: 1 for `at least 1`, `1 for the first and so on`, and for lengths of what has a beginning; else 0."""
    match = _AT_LEAST.search(text)
    if match is not None:
        return int((match["least"] or match["low"]).lower().replace("one", "1"))
    if _GOES_ON.search(text) is not None and min(_listed(text), default=0) > 0:
        return min(_listed(text))
    counts = _LENGTHS.fullmatch(name) and _COUNTED.search(f"{name} {text}")
    based = _BASED_ON_ONE.search(text) is not None and not _SPEAKS_OF_ZERO.search(text)
    from_one = based or _FROM_ONE.search(text) is not None
    return int(from_one or (bool(counts) and not _MAY_BE_EMPTY.search(text)))


_AS_LONG = re.compile(
    r"\W*(?:(?P<whole>(?:an?\s+)?(?:static\s+)?(?:int|integer)\b\W*)|static\b\W*)?(?:at least|no (?:less|fewer|smaller|shorter) than|not (?:less|fewer|smaller|shorter|below) than|>=|≥)\s*"
    r"(?:as (?:many|long|large) as\s+)?(?:the\s+)?(?:(?:number|count)\s+of|(?(whole)(?:length|size)\s+of|(?!)))\b"
    r"(?![^.;,]*\b(?:minus|plus|times|floats?|per)\b)",
    re.IGNORECASE,
)


def is_as_long(text: str) -> bool:
    """Is it a whole number that no axis exceeds: `at least the number of samples`?"""
    return _AS_LONG.match(text) is not None


def _range_of_listed(text: str) -> str:
    """`in -1..2` for `1 for foreground, 0 for background, -1 for neither`; of what goes on no end is said."""
    numbers = _listed(text)
    ends = len(numbers) > 1 and _GOES_ON.search(text) is None
    return f"in {min(numbers)}..{max(numbers) + 1}" if ends else ""


def _lists_codes(text: str) -> bool:
    """Are three integers and more told one by one, as what an array holds?"""
    return len(_listed(text)) >= _CODES and _VALUED.search(text) is not None


def _listed(text: str) -> set[int]:
    """The integers that are told one by one, if none between them is left out."""
    row = _IN_A_ROW.search(text)
    listed = re.findall(r"[+-]?\d", row["numbers"] or row["set"]) if row else _MEANING.findall(text)
    numbers = {int(number) for number in listed}
    whole = numbers and len(numbers) == max(numbers) - min(numbers) + 1
    return numbers if whole and not _PLACES.search(text) else set()


def examples(text: str) -> tuple[str, ...]:
    """The strings that a text gives as examples of one: `e.g. "XY"`."""
    return tuple(dict.fromkeys(match["string"] for match in _EXAMPLE.finditer(text)))


def words(text: str) -> tuple[str, ...]:
    """The words among which an argument chooses, where two or more stand in quotes."""
    quoted = tuple(dict.fromkeys(_QUOTED.findall(text)))
    leads = (
        _QUOTED.match(text.lstrip(" `:-")) is not None
    )  # `"sum" gives …, "mean" divides that by …`
    return quoted if len(quoted) > 1 and (leads or _CHOICE.search(text)) else ()
