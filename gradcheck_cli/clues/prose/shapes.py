"""Shapes in a passage: `logits of shape (batch, classes)`, `(N, C)`, `a square matrix`, `an n x k matrix`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.clues.prose.dims import BRACKETS, Dims, probable, stated
from gradcheck_cli.clues.prose.passages import SENTENCE_END, Passage
from gradcheck_cli.clues.prose.plurals import spelled_out


@dataclass(frozen=True, slots=True)
class Shape:
    """The axes that a passage gives, by name or only by their number; `written` is how."""

    written: str
    dims: Dims | None = None
    rank: int | None = None
    square: bool = False


_NOUN = (
    r"(?:arrays?|tensors?|matri(?:x|ces)|vectors?|ndarrays?|images?|batch(?:es)?|grids?"
    r"|fields?|maps?|volumes?|signals?|weights?|logits|features|activations|tables?|(?:edge|node|index|id) lists?)"
)
_SAID = re.compile(
    rf"(?:\bshaped?|\bdim(?:ension)?s|\bsizes?)\W{{0,3}}(?:(?:of|is|as"
    rf"|are)\s+)?['\"]*(?P<dims>{BRACKETS})",
    re.IGNORECASE,
)
_SHAPED = re.compile(
    rf"(?P<dims>{BRACKETS})\s*-?\s*(?:shaped|(?:float\w*\s+)?{_NOUN})", re.IGNORECASE
)
# `float array [platters, dishes]`, whatever the axes are called.
_TYPED = re.compile(
    r"^\W*(?:an?\s+)?(?:float\w*|u?int\w*|integer|bool\w*|real|complex\w*)\s+(?:arrays?|tensors?|tables?|matrix)\s*"
    rf"(?P<dims>(?=[(\[]\s*[A-Za-z]\w*\s*,[\w\s,]*[)\]]){BRACKETS})",
    re.IGNORECASE,
)
# What stands there as well, and is no axis: `float array (sorted, unique)`.
_REMARK = re.compile(
    r"\w+(?:ed|ing|ly|able|ive|ic|ous)|unique|log|natural|unit|absolute|true|false|zero|one|dense|sparse|finite|optional|static|real|complex|not|non|and|or|no",
    re.IGNORECASE,
)
_ANY_SHAPE = re.compile(r"[\[(]\s*(?:\.\.\.|\*|…)\s*,?\s*[\])]")
_COMPONENTS = re.compile(
    r"^\W*(?:\([\w. ]+\)\W*)?(?:(?:an?|the|unit|input|rotation"
    r"|batch of)\s+)*(?P<noun>quaternion|(?:3d\s+)?(?:vector|point|position|direction"
    r"|coordinate|box|colou?r))(?:e?s)?\b",
    re.IGNORECASE,
)
_COMPONENTS_END = re.compile(
    r"\b(?P<noun>quaternion|vector|point|position|direction|coordinate|box"
    r"|colou?r)(?:e?s)?\s*$",
    re.IGNORECASE,
)
# `holds the two time constants: socket off, socket on`: as many as are named, and of nothing that is an array or an axis itself.
_COUNTED = re.compile(
    r"[\s`,:]*(?:holds|contains)\s+the\s+(?P<count>two|three|four|five|six)\s+(?:[A-Za-z-]+\s+){0,4}?"
    r"(?!(?:ax[ei]s|dim\w*|arrays?|vectors?|tensors?|matri\w+|images?|inputs?|fields?|entries|roles?|modes?|choices|values"
    r"|parts?|corners?|points?|rows?|columns?|limits|ends|each|every)\b)[A-Za-z-]+\s*:\s*(?P<parts>[^.;:()\n]+)",
    re.IGNORECASE,
)
_OF_EACH = re.compile(r"\b(?:each|every|per|all|both)\b", re.IGNORECASE)
_COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_BROADCAST = re.compile(rf"\bbroadcast\w*\s+(?:to|with|against)\s+(?:the\s+)?(?:shape\s+)?(?P<dims>{BRACKETS})", re.IGNORECASE)  # fmt: skip
# As einsum and einops write it: float `b h q d`.
_LETTERS = re.compile(
    r"^\W*(?:(?:float\w*|b?float\d+|bool\w*|u?int\w*|array|tensor|optional|real|complex)\s+){0,3}`{0,2}(?P<dims>[a-z](?:\s[a-z]){1,5})`{0,2}(?=[.,;:]|\s*\(|\s*$)",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"\b(?:vectors?|arrays?|signals?|series|kernels?|filters?|windows?)\s+of\s+(?:length"
    r"|size|dimension)\s+(?P<dims>\w+)\b(?!\s*[-+*/(])",
    re.IGNORECASE,
)
_OF_LENGTH = re.compile(r"\s+of\s+(?:length|size|dimension)\s+(?P<dims>\w+)\b(?!\s*[-+*/(])")
_ONE_AXIS = re.compile(
    r"\b(?:vectors?|signal|series|kernel|filter|window|array)\s*$", re.IGNORECASE
)
_LAYOUT = re.compile(
    r"\s*(?:is|in|:|as|\()\s*(?P<axes>[NB][CTHWDLSK]{2,4}|OI[HWDL]{1,3}|HW[CIO]{1,2})\b"
)
_LAYOUT_FIRST = re.compile(r"\W*(?:an?\s+)?(?P<axes>N[CTHWDL]{2,4}|OI[HWDL]{1,3})(?=\W|s\b|$)")
_KERNEL_AXES = {"I": "C", "H": "kh", "W": "kw", "D": "kd", "L": "k"}
_JOINED = re.compile(r"['\"`]*\s*\+")
_BRACKETED = re.compile(BRACKETS)
# `ids: [chosen] int`: a unit, as in `[mol]`, has no type behind it.
_TYPED_ROW = re.compile(
    r":\s*\[(?P<name>[^\W\d]\w*)\]\s+(?:u?int\w*|float\w*|bool\w*|integers?|floats?|array|tensor)\b"
)
# `kept: bool [v]`, `bill: int [v]`: what is counted or true has no unit, but for one of those of time and length.
_ROW_OF_A_TYPE = re.compile(r":\s*(?:u?int\w*|bool\w*)\s+\[(?P<name>(?![smhd]\]|ms\])[a-z]\w*)\]")
# `reviewer, paper [N] ids`: nothing that counts places has a unit.
_ROW_OF_IDS = re.compile(
    r"\w \[(?P<name>[A-Z])\] (?:[a-z]+ )?(?:ids?|ind(?:ex|ices)|labels?|masks?|bools?|booleans?)\b"
)
# `bias: [R]` above `scale: [R]`, in a letter that is no unit.
_ENTRY_OF_A_CAPITAL = re.compile(
    r"^\s*\w+\s*:\s*\[(?P<name>(?![ACFGHJKLMNSTVW]\])[A-Z])\]", re.MULTILINE
)
# Plurals that are units, or no nouns.
_UNITS = (
    r"(?:\w*(?:met(?:re|er)|gram|second|lit(?:re|er)|minute|hour|day|week|month|year|degree|radian|volt|watt"
    r"|pascal|newton|joule|kelvin|celsiu|mole|amp|ampere|ohm|siemen|farad|tesla|gaus|lumen|dollar|euro|cent|pound|unit|point|count|bit|byte|nat"
    r"|bp|decibel|pixel|mile|inche|yard|knot|erg|electronvolt|photon|atmosphere|bar|ton|tonne|ounce|calorie|parsec|angstrom|micron|dalton|turn"
    r"|cycle|step|frame|event|float|int|integer|number|alway|percent)s|\w*(?:ss|us|is))"
)
# `log_c: [materials]` above `n: [materials]`, in a plural that is no unit.
_ENTRY_OF_A_PLURAL = re.compile(
    rf"^\s*\w+\s*:\s*\[(?P<name>(?!{_UNITS}\])[a-z_]" + r"{3,}s)\]", re.MULTILINE
)
# `flow: [batch]; areas: [pans]`: entries of a list.
_ROW_OF_A_LIST = re.compile(r":\s*\[(?P<name>[^\W\d]\w*)\](?=\s*[;.])")
# Nor are types axes, and units that nothing else here asks for.
_NO_AXES = (
    r"(?:bools?|booleans|strings?|words|texts|keys|yens?|coulombs?|henrys|candelas?|hartrees?|bohrs?|revs?|ppms?|fractions|shares"
    r"|ratios|decades|teslas?|webers?|grays?|sieverts?|becquerels?|katals?)"
)
_NO_UNITS = re.compile(rf"(?!(?:{_UNITS}|{_NO_AXES})$)[a-z_]" + r"{3,}s")
_ROWS_OF_CAPITALS = re.compile(r"[a-z_\d] \[[A-Z](?:,\s*[A-Z])+\]")
_ROW_OF_A_CAPITAL = re.compile(r"[a-z_\d] \[(?P<name>(?![ACEFGHJKLMNPRSTUVW]\])[A-Z])\]")
_TUPLE_OF_ONE = re.compile(
    r"(?<!\w)\(\s*(?P<name>[a-z][a-z_]{2,}\w*)\s*,\s*\)"
)  # no prose: `(genes,)`
# Brackets with a comma that a word leads, and no call: a blank or a colon stands between.
_WORD_AND_BRACKETS = re.compile(
    rf"(?P<word>[^\W\d]\w*)(?:\s*:\s*|\s+)(?P<dims>(?=[(\[][^()\[\]]*,){BRACKETS})"
)
_ROW_AT_AN_END = re.compile(
    r"(?<![\w)\]])(?P<dims>\[[a-z]\w*(?:,\s*[a-z]\w*)*\])`*(?=[.;](?:\s|$)|\s*(?:\n|$))",
    re.IGNORECASE,
)
_IS_BRACKETS = re.compile(
    r"\b(?P<name>[^\W\d]\w*)\s+(?:is|are)\s+(?:both\s+|each\s+)?(?P<dims>\[[a-z]{3,}\w*(?:,\s*[a-z]{3,}\w*)+\])(?=[.;,)]|\s+(?:and|of|with)\b|\s*$)",
    re.MULTILINE,
)
# `over the species`, `every clip`
_GOES_ALONG = re.compile(
    r"\b(?:over|per|each|every|across|along)\s+(?:(?:the|its|all|stated|real|valid)\s+){0,2}(?P<name>[^\W\d]\w*)",
    re.IGNORECASE,
)
# `one entry per magnet circuit`; nothing that has axes itself, and not of two things at once
_ONE_EACH = re.compile(
    r"\W*(?:an?\s+)?(?:(?:array|vector|tensor|list|sequence)\s+(?:of|with)\s+)?one\s+(?:entry|value|number|float|scalar|coefficient|weight)"
    r"\s+(?:per|for\s+(?:each|every))\s+(?!(?:pair|pixel|voxel|cell|call|run|batch|image|matrix)\b|(?:\w+\s+)?and\b)(?:[a-z-]+\s+){0,2}?[a-z-]+(?=\s*(?:[.;]|$))",
    re.IGNORECASE,
)
_PLURAL = re.compile(r"[a-z_]{3,}[^s\W]s")
_AN_AXIS = re.compile(rf"(?!{_UNITS}$)[a-z_]" + r"{3,}[^s\W]s")
_WITHIN = re.compile(r"\b(?:in|within|between|from|range)\W*$", re.IGNORECASE)  # an interval
_EXAMPLE = re.compile(r"(?:e\.g\.|for example|such as)\W*$", re.IGNORECASE)
_BY = re.compile(
    rf"\b(?P<dims>\w+(?:\s*(?:×|\s[xX]\s|-by-|\sby\s)\s*\w+)+)[\s-]*(?:\w+[\s-]+)?(?={_NOUN})"
)
# `in R^{n x d}`, `∈ ℝn`, `in Rn`; "in RGB order" and "in R the package" are none.
_SPACE = re.compile(
    r"(?:∈|\bin)\s*(?:ℝ\s*\^?\{?|R(?:\s*\^\s*\{?|\{|(?=\(|\d|\s?[A-Za-z]\w?\s*[x×]\s*[A-Za-z]\b|[A-Za-zⁿᵈᵐ]\b(?![-\w]))))"
    r"(?P<dims>\((?:[^()]*)\)|[\w ×x*]+)\}?"
)
# Words between a name and its shape in a sentence.
_GLUE = r"(?:\s|,|:|-|either|(?:strictly\s+)?(?:positive|non-?negative|nonzero|finite)(?:\s+and\b)?|is|are|be|has|have|having|with|of|an?|the|both|each|all|some|real|input|output|integers?|booleans?|bool|u?int\d*|float\w*|jnp\.|jax\.|np\.|torch\.|tf\.|" + _NOUN + r")*"  # fmt: skip
# `the edge lists [E]`: one axis, right behind what it is of.
_ONE_LETTER, _NOUN_LAST = re.compile(r"\[[A-Z]\]"), re.compile(_NOUN + r"\s*$")
# `limits [S, 2] and ends [2]`: behind a shape with several axes, in a list.
_ONE_AXIS_LISTED = re.compile(r"\[(?:[2-6]|(?P<name>[A-Z]|[a-z_]{3,}))\]")
_BEHIND_A_SHAPE = re.compile(
    r"\[[^\[\]]*,[^\[\]]*\]\s*(?:,\s*(?:and\s+)?|and\s+)(?:the\s+)?[`\"'*]*$"
)
# Behind one shape: `, or (C,)`, `, one number per pair, or (C, D)`.
ALTERNATIVE = re.compile(
    rf"[`*]*\s*(?:,[^,;.()\[\]]{{0,60}},\s*or|,\s*or|,|or)\s*[`*]*(?P<dims>{BRACKETS})"
)
# Ahead of the shape that tells: `alpha () or (Q,)`.
_NO_AXES_OR = re.compile(r"^\s*\(\s*\)\s*(?:,\s*)?or\b(?=\s*\(\s*\w+\s*[,)])")
_TIGHT_GLUE = r"(?:\s|:|is|has|of|with)*"
_OTHER_SHAPE = re.compile(
    r"\b(outputs?|results?|returns?|gradients?|cotangents?|reshaped?|broadcast\w*|becomes?"
    r"|yields?|produces?|gives?|otherwise)\b",
    re.IGNORECASE,
)
# `Logits of the first pass, (batch, time)`: what ends an entry behind a comma is of the entry itself.
_APART = re.compile(r",\s*[`\"']*$")
# What follows is about something else than the parameter.
_ELSE = re.compile(
    r"\b(outputs?|results?|returns?|gradients?|cotangents?|reshaped?|broadcast\w*|where|if"
    r"|when|unless|per|after|becomes?|yields?|produces?|gives?|same|otherwise|to shape"
    r"|last|first|axis|along|over|e\.g)\b",
    re.IGNORECASE,
)
# So it is with these even before `[batch]`; `tokens per sequence [batch]`, `points in the first image [batch]` are shapes.
_ELSE_FOR_SURE = re.compile(
    r"\b(outputs?|results?|returns?|gradients?|cotangents?|reshaped?|broadcast\w*|where|if"
    r"|when|unless|after|becomes?|yields?|produces?|gives?|same|otherwise|to shape|axis|along|over)\b",
    re.IGNORECASE,
)
_ADJECTIVES = (
    r"(?:(?!(?:of|on|for|in|to|per|and|or|the|an?|that|from|by|with|at|as|each|every|is"
    r"|are)\b)[\w-]+\s+){0,4}?"
)
_NAMED = r"(?:(?P<batch>batch(?:es)?|stacks?)\s+of\s+)?(?P<adjectives>" + _ADJECTIVES + r")(?P<noun>matri(?:x|ces)|vectors?)"  # fmt: skip
_LOOSE = re.compile(
    rf"\W*(?:\([^()]*\)\s*:?\s*)?(?:an?\s+|the\s+)?{_NAMED}\b(?!-)(?!\s*(?:product"
    rf"|multipl\w+|norm|or\b|fields?|of vectors))",
    re.IGNORECASE,
)
_SQUARE = re.compile(
    r"square|symmetric|hermitian|spd|psd|definite|triangular|covariance|orthogonal"
    r"|rotation|invertible",
    re.IGNORECASE,
)
_EITHER = re.compile(
    r"\b(?:scalars?|vectors?|matri(?:x|ces)|tensors?|numbers?|floats?)\s*(?:or|/"
    r"|,)\s*(?:an?\s+)?(?:scalars?|vectors?|matri(?:x|ces)|tensors?|arrays?|numbers?)",
    re.IGNORECASE,
)


def shape(passage: Passage, elsewhere: Collection[str] = ()) -> Shape | None:
    """The shape of the parameter; `elsewhere` are names of the text that are dimensions for sure."""
    return _stated(passage, elsewhere) or _of_components(passage) or _of_members(passage)


def _of_members(passage: Passage) -> Shape | None:
    """One axis of as many as are counted and named: `the two time constants: socket off, socket on`."""
    text = " ".join((passage.alone if passage.entry else passage.after).split())
    match = None if passage.common_word else _COUNTED.match(text)
    count = 0 if match is None else _COUNTS[match["count"].lower()]
    if match is None or _OF_EACH.search(match.group()):
        return None
    if len(re.split(r",\s*(?:and\s+)?|\s+and\s+", match["parts"])) != count:
        return None
    return Shape(match.group().strip(" `,:"), Dims((str(count),)))


def _of_components(passage: Passage) -> Shape | None:
    """Axes of a quaternion, or of what is written by its components: `the point p = (x, y, z)`."""
    behind = passage.after if passage.entry else passage.after[:40]
    spoken = passage.alone if passage.entry else passage.before[-40:]
    match = re.match(
        r"\s*(?:=|:|,|is|are)?\s*(?P<parts>[(\[]\s*\w{1,2}(?:\s*,\s*\w{1,2}){1,6}\s*[)\]])", behind
    )
    noun = _COMPONENTS.search(spoken) if passage.entry else _COMPONENTS_END.search(spoken)
    if noun is None or passage.common_word:
        return None
    if noun["noun"].lower().startswith("quaternion"):
        count = 4
    elif match is not None:
        count = match["parts"].count(",") + 1
    else:
        return None
    several = noun.group().lower().rstrip().endswith(("s", "boxes"))
    return Shape(noun.group().strip(), Dims(("...", str(count)) if several else (str(count),)))


def _stated(passage: Passage, elsewhere: Collection[str]) -> Shape | None:
    if passage.entry:
        return _of_entry(passage.alone, elsewhere)
    passage = replace(passage, after=_NO_AXES_OR.sub("", passage.after))
    behind = _behind(passage, elsewhere)
    if behind is None and (
        not passage.common_word or re.match(r"\s*(?:[,.;:)(]|$)", passage.after)
    ):
        return _ahead(passage, elsewhere)
    return behind


def certain_names(text: str, names: Sequence[str]) -> set[str]:
    """Names that stand in shapes of several dimensions, anywhere in the text, or in it as spelled out for these parameters."""
    return _certain(text) | _certain(spelled_out(text, names)) | _in_brackets_of(names, text)


def _in_brackets_of(names: Sequence[str], text: str) -> set[str]:
    """The names in square brackets that a parameter is said to be, all of which the text goes along: `logits is [clip, species]`, `every clip`."""
    said = (m for m in _IS_BRACKETS.finditer(text) if m["name"] in names)
    shapes = [{*dims.names} for m in said if (dims := stated(m["dims"])) is not None]
    along = {match["name"].lower() for match in _GOES_ALONG.finditer(text)}
    return {name for dims in shapes if dims <= along and dims.isdisjoint(names) for name in dims}


def _certain(text: str) -> set[str]:
    found: set[str] = set()
    for match in _BRACKETED.finditer(text):
        dims = probable(match.group())
        element = match.start() > 0 and text[match.start() - 1] not in " \n(:,=*'\"`"
        if dims is not None and len(dims.names) > 1 and not element:
            found |= set(dims.names)
    for match in _SAID.finditer(text):
        dims = stated(match["dims"])
        found |= set(dims.names) if dims else set()
    found |= _behind_several(text) | _shared_by_rows(text) | _listed(text)
    found |= {match["name"] for match in _TUPLE_OF_ONE.finditer(text)}
    for typed in (_TYPED_ROW, _ROW_OF_A_TYPE):
        found |= {match["name"] for match in typed.finditer(text)}
    found |= {"B"} if "[B]" in text else set()  # a batch; other letters in brackets are units, too
    found |= {match["name"] for match in _ROW_OF_IDS.finditer(text)}
    for entry in (_ENTRY_OF_A_CAPITAL, _ENTRY_OF_A_PLURAL):
        names = [match["name"] for match in entry.finditer(text)]
        found |= {name for name in names if names.count(name) > 1}
    # Where others have several axes, a letter that is no unit is one.
    if _ROWS_OF_CAPITALS.search(text):
        found |= {match["name"] for match in _ROW_OF_A_CAPITAL.finditer(text)}
    for match in _BRACKETED.finditer(text):
        dims = stated(match.group()) if "," in match.group() else None
        if dims is not None and any(len(name) > 2 and name in found for name in dims.names):
            found |= set(dims.names)
    return {name for name in found if not name.isdigit() and name != "..."}


def _listed(text: str) -> set[str]:
    """Plurals in brackets that end an entry of a list, where another entry's are an axis by its name: `flow: [batch]; areas: [pans]`."""
    names = [match["name"] for match in _ROW_OF_A_LIST.finditer(text)]
    known = (len(name) > 2 and probable(f"[{name}]") is not None for name in names)  # `s` is a unit
    return {name for name in names if _NO_UNITS.fullmatch(name)} if any(known) else set()


def _behind_several(text: str) -> set[str]:
    """The names in brackets that stand right behind two different words: `ids (baskets, slots), weights (baskets, slots)`."""
    behind: dict[tuple[str, ...], set[str]] = {}
    for match in _WORD_AND_BRACKETS.finditer(text):
        dims = stated(match["dims"])
        if dims is not None and any(_PLURAL.fullmatch(name) for name in dims.names):
            behind.setdefault(dims.names, set()).add(match["word"])
    return {name for dims, words in behind.items() if len(words) > 1 for name in dims}


def _shared_by_rows(text: str) -> set[str]:
    """The names in square brackets that end a clause, where one in the plural stands in several, beside another: `[fields, levels]`, `[pairs, fields]`."""
    found = (m for m in _ROW_AT_AN_END.finditer(text) if not _WITHIN.search(text[: m.start()]))
    rows = [dims.names for m in found if (dims := stated(m["dims"])) is not None]
    several = [row for row in rows if len(row) > 1]
    every = [name for row in rows for name in set(row)]
    shared = {n for row in several for n in row if _AN_AXIS.fullmatch(n) and every.count(n) > 1}
    return {name for row in rows if shared & {*row} for name in row}


def _of_entry(text: str, elsewhere: Collection[str]) -> Shape | None:
    match = _BROADCAST.search(text)
    if match is not None and (dims := stated(match["dims"])) is not None:
        return Shape(match.group(), dims)
    for pattern in (_SAID, _SHAPED, _BY, _SPACE, _LENGTH):
        for match in pattern.finditer(text):
            dims = _sure(match["dims"])
            if _ANY_SHAPE.fullmatch(match["dims"]) or _JOINED.match(text, match.end("dims")):
                return None
            other = _OTHER_SHAPE if pattern is _SAID else _ELSE
            if dims is not None and not other.search(text[: match.start()]):
                return Shape(match.group(), _richest(dims, text[match.end("dims") :]))
            if pattern is _SAID:
                break  # what is said of others comes later
    at_once = _at_its_head(text)
    if at_once is not None:
        return at_once
    sentence = SENTENCE_END.split(text)[0]
    for match in _BRACKETED.finditer(sentence):
        if match.start() and sentence[match.start() - 1].isalnum() and match.group()[0] == "(":
            continue  # a call: f(x)
        lead = sentence[: match.start()].strip(" :,`\"'-")
        dims = probable(match.group(), elsewhere)
        if dims is None and not lead:
            dims = _numbers(match.group()) or _mostly_usual(match.group())
        ends = not sentence[match.end() :].strip(" .`")
        apart = ends and _APART.search(sentence[: match.start()])
        if dims is not None and (
            apart or not _is_about_others(lead, match.group(), dims, elsewhere)
        ):
            return Shape(match.group(), _richest(dims, sentence[match.end() :]))
    letters = _LAYOUT_FIRST.match(sentence)
    layout = None if letters is None else _of_layout(letters["axes"])
    return layout or _loose(sentence) or _of_one_each(sentence)


def _at_its_head(text: str) -> Shape | None:
    """The shape that an entry begins with, behind its type at most: `b h q d`, `float array [platters, dishes]`."""
    spaced, typed = _LETTERS.match(text), _TYPED.match(text)
    if spaced is not None and (dims := stated(spaced["dims"])) is not None:
        return Shape(spaced["dims"], dims)
    dims = None if typed is None else stated(typed["dims"])
    return None if typed is None or dims is None or not _are_axes(dims) else Shape(typed["dims"], dims)  # fmt: skip


def _are_axes(dims: Dims) -> bool:
    """Are they what axes go along, one of them in the plural, and none of them a remark?"""
    return any(map(_AN_AXIS.fullmatch, dims.names)) and not any(map(_REMARK.fullmatch, dims.names))


def _of_one_each(sentence: str) -> Shape | None:
    """One axis, without a name, for an entry of which there is one of each: `one entry per magnet circuit`."""
    match = _ONE_EACH.match(sentence)
    return None if match is None else Shape(match.group().strip(), rank=1)


def _is_about_others(lead: str, written: str, dims: Dims, elsewhere: Collection[str]) -> bool:
    """Do the words before a shape turn to something else? Fewer do where its names are dimensions for sure."""
    names = {name for name in dims.names if not name.isdigit()}
    certain = written[0] == "[" and bool(names) and names <= set(elsewhere)
    words = _ELSE_FOR_SURE if certain else _ELSE
    return words.search(_EXAMPLE.sub("", lead)) is not None


def _richest(dims: Dims, following: str) -> Dims:
    """Of alternatives, as `(C), (N, C) or (N, C, ...)`, the one with the most named axes; `(d,)` rather than `(1,)`."""
    choices = [dims]
    while match := ALTERNATIVE.match(following):
        other = stated(match["dims"])
        choices += [] if other is None else [other]
        following = following[match.end() :]
    closed = [choice for choice in choices if not choice.is_open] or choices
    return max(closed, key=lambda choice: (len(choice.names), sum(map(str.isalpha, choice.names))))


def _sure(written: str) -> Dims | None:
    if written[:1] in "([":
        return stated(written)
    parts = re.split(r"×|\s[xX]\s|-by-|\sby\s|(?<=[A-Z\d])x(?=[A-Z\d])", written)
    return stated(", ".join(part.strip() for part in parts))


def _mostly_usual(written: str) -> Dims | None:
    """`[batch, time, whatever]`, which leads an entry: most are usual for axes, or all in the plural beside a number."""
    dims = stated(written) if written.startswith("[") else None
    if dims is None or len(dims.names) < 2:
        return None
    unusual = [n for n in dims.names if not n.isdigit() and probable(f"({n}, {n})") is None]
    counted = any(name.isdigit() for name in dims.names)
    if counted and unusual and all(map(_PLURAL.fullmatch, unusual)):  # `[parts, 2, 2]`
        return dims
    return dims if len(dims.names) > 2 and 2 * len(unusual) < len(dims.names) else None


def _numbers(written: str) -> Dims | None:
    """Two numbers or more, none of them 0, as `(3, 4)`."""
    dims = stated(written)
    several = dims is not None and len(dims.names) > 1
    return dims if several and re.fullmatch(r"[\[(]\s*[1-9][\d\s,x1-9]*[\])]", written) else None


def _behind(passage: Passage, elsewhere: Collection[str]) -> Shape | None:
    """The shape that follows the name in a sentence."""
    text = passage.after
    glue = _TIGHT_GLUE if passage.common_word else _GLUE
    match = re.match(
        rf"{glue}(?:(?:shape|size|dimensions)[d]?\s*(?:of|is|:|=|==)?\s*)(?P<dims>{BRACKETS})", text
    )
    match = match or re.match(rf"\.shape\s*(?:==?|is|:)\s*(?P<dims>{BRACKETS})", text)
    if match is not None and (dims := stated(match["dims"])) is not None:
        return Shape(match["dims"], dims)
    match = re.match(BRACKETS, text)
    if match is not None:
        return _at_once(match.group(), elsewhere)
    match = re.match(rf"(?P<glue>{glue})(?P<dims>{BRACKETS})", text)
    if match is not None:
        one_axis = (
            _ONE_LETTER.fullmatch(match["dims"]) and _NOUN_LAST.search(match["glue"])
        ) or _is_listed(match["dims"], passage.before, elsewhere)
        dims = stated(match["dims"]) if one_axis else probable(match["dims"], elsewhere)
        return None if dims is None else Shape(match["dims"], dims)
    return _in_words(passage, glue, elsewhere)


def _is_listed(written: str, before: str, elsewhere: Collection[str]) -> bool:
    """Is it a single axis behind a shape of several, and not a unit: a small number, or a name that is a dimension elsewhere?"""
    axis = _ONE_AXIS_LISTED.fullmatch(written)
    known = axis is not None and (axis["name"] is None or axis["name"] in elsewhere)
    return known and _BEHIND_A_SHAPE.search(before) is not None


def _in_words(passage: Passage, glue: str, elsewhere: Collection[str]) -> Shape | None:
    """`x is NCHW`, `a signal x of length n`, `x (ndarray, shape (n, k))`, `x is a vector`."""
    text = passage.after
    letters = _LAYOUT.match(text)
    if letters is not None and (layout := _of_layout(letters["axes"])) is not None:
        return layout
    length = _OF_LENGTH.match(text)
    if length is not None and (_ONE_AXIS.search(passage.before) or passage.is_signal):
        return Shape(length.group().strip(), stated(f"({length['dims']},)"))
    inner = re.match(rf"\s*\((?P<inner>(?:[^()]|{BRACKETS})*)\)", text)
    if inner is not None:
        return _of_entry(inner["inner"], elsewhere)
    for pattern in (_SPACE, _BY):
        match = pattern.search(text[:60])
        if match is not None and re.fullmatch(glue, text[: match.start()]):
            dims = _sure(match["dims"])
            return None if dims is None else Shape(match.group(), dims)
    if passage.common_word:
        return None
    clause = re.match(r"\s*(?:,|is|are)\s+(?:an?|the|two|both)?\s*(?P<rest>[^,.;:()]*)", text)
    return None if clause is None else _loose(clause["rest"][:40])


def _of_layout(letters: str) -> Shape | None:
    """The axes that letters name, as in `NCHW`; those of kernels by other names."""
    if len(set(letters)) < len(letters):
        return None
    axes = (_KERNEL_AXES.get(a, a) for a in letters) if "I" in letters else letters
    return Shape(letters, Dims(tuple(axes)))


def _at_once(written: str, elsewhere: Collection[str]) -> Shape | None:
    """The brackets right behind a name: `x[B, T, D]` is a shape, `x[i, j]` an element, `f(x, y)` a call."""
    capitals = re.fullmatch(r"\[\s*[A-Z]\w*(?:[\s,]+[A-Z\d]\w*)+\s*\]", written) is not None
    if written[0] in "([" and not capitals and not _long_words(written, elsewhere):
        return None
    dims = probable(written, elsewhere)
    return None if dims is None else Shape(written, dims)


def _long_words(written: str, elsewhere: Collection[str]) -> bool:
    words = re.findall(r"[^\W\d]\w*", written)
    return any(len(word) > 2 for word in words) or (bool(words) and set(words) <= set(elsewhere))


def _ahead(passage: Passage, elsewhere: Collection[str]) -> Shape | None:
    """The shape that stands before the name: `the (n, k) matrix a`, `a vector x`."""
    text = passage.before
    match = re.search(
        rf"(?P<dims>{BRACKETS})\s*-?\s*(?:shaped\s+)?(?:(?:float|real|input)\s+)*(?:{_NOUN}|(?<=shaped\s))\s*$",
        text,
    )
    if match is not None:
        dims = probable(match["dims"], elsewhere)
        return None if dims is None else Shape(match["dims"], dims)
    match = re.search(
        rf"\b(?P<dims>\w+(?:\s*(?:×|\s[xX]\s|-by-|\sby\s)\s*\w+)+)[\s-]*(?:[\w-]+\s+)?{_NOUN}\s*$",
        text,
    )
    if match is not None:
        dims = _sure(match["dims"])
        return None if dims is None else Shape(match.group().strip(), dims)
    match = re.search(rf"(?<![\w-]){_NAMED}\s*$", text)
    return None if match is None else _loose(match.group())


def _loose(text: str) -> Shape | None:
    """The number of axes that a noun has: a vector, a batch of matrices."""
    if _EITHER.search(text):
        return None
    match = _LOOSE.match(text)
    if match is None or _ELSE.search(match["adjectives"]):
        return None
    matrix = match["noun"].lower().startswith("m")
    if (
        not match["batch"]
        and match["noun"].lower().endswith("s")
        and not _SQUARE.search(match["adjectives"])
    ):
        return None  # several: each a row, or each an argument
    rank = (2 if matrix else 1) + bool(match["batch"])
    square = matrix and _SQUARE.search(match["adjectives"]) is not None
    return Shape(match.group().strip(), rank=rank, square=square)
