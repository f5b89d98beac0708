"""What a text says of several parameters together, once each is read.

Shapes: `lon and lat have the same shape`. Sizes: `Hk divides H`, `R <= E`; in a spec the larger one says so: `2*Hk`, `R+E_rest`. Integers: `token_lengths <=
frame_lengths`, labels beside scores, ranges that end at a dimension.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from gradcheck_cli.inputs.clue import Clue, Kind

_NO_ARRAYS = (Kind.TREE, Kind.WORD, Kind.FLAG, Kind.WHOLE, Kind.FUNCTION)
_SCORES = ("logits", "scores", "log_probs", "logprobs")
_LABELS = ("labels", "label", "targets", "target")
_NOT_ABOVE = re.compile(r"\b(?P<lesser>[^\W\d]\w*)\s*(?:<=|≤)\s*(?P<greater>[^\W\d]\w*)")
_NAME = r"(?<![\w.`])`*([^\W\d]\w*)`*"
_LESSER_FIRST = re.compile(rf"{_NAME}\s*(?:<=?|≤)\s*{_NAME}(?!\s*//)")
_GREATER_FIRST = re.compile(rf"{_NAME}\s*(?:>=?|≥)\s*{_NAME}")
_MOST = 16  # an axis that has to be longer is none of an example
# `K >= 4`, `at least 4 frames`; the axis in the plural is its size.
_NUMBER_FIRST = re.compile(
    rf"\b(?P<least>\d+)\s*(?:<=|≤)\s*{_NAME}|{_NAME}\s*(?:>=|≥)\s*(?P<number>\d+)\b(?!\.\d)|\bat least (?P<count>\d+) ([^\W\d]\w*)"
)
# `more anchors than dimensions`, `at least as many rows as columns`.
_MORE = re.compile(
    r"(?<!no )(?<!not )(?<!never )\b(?:more|at least as many)\s+([^\W\d]\w*)\s+(?:than|as)\s+([^\W\d]\w*)"
)
_PART_FIRST = re.compile(rf"{_NAME} (?:must )?(?:evenly )?divid(?:es?|ing) {_NAME}")
_WHOLE_FIRST = re.compile(
    rf"{_NAME}(?:,| is| are| must be| has to be| should be)? (?:an? )?(?:integer )?(?:multiple of|divisible by) {_NAME}"
    rf"|{_NAME} % {_NAME} == 0"
)
# `lon and lat have the same shape`, `u, v and w are of equal shapes`: of no other array, and without exceptions.
_ALIKE = re.compile(
    r"(?P<names>[^\W\d]\w*(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*)[^\W\d]\w*)+)\s+"
    r"(?:(?:must|should|all|both|each|are|be|have|has|share|of)\s+)*"
    r"(?:the same|one|equal|identical|matching|a common)\s+shapes?\b"
    r"(?!\s*,?\s*(?:as|of|with|up to|or|but|except|apart|after|\w+ed)\b)"
)
# `int counts, bool surveyed, params "occupied" and "log_rate": one shape`: all that is listed before the colon.
_ALL_ALIKE = re.compile(
    r"(?:^|[.;(]\s)(?P<names>[\w\s,&`\"']+)(?::|,)\s*(?:all\s+)?(?:of\s+)?(?:one|the same|equal) shapes?\s*(?=[.;)\n]|$)",
    re.MULTILINE,
)
_BESIDE_NAMES = re.compile(
    r"[\"'][^\"']*[\"']|\b(?:and|u?int\d*|integers?|bool(?:ean)?|float\d*)\b"
)
# `n = 2 ** stages`, `stages = log2(n)`, `n a power of two`
_POWER = re.compile(
    r"\b(?P<power>[A-Za-z]\w*)\s*=\s*(?:2\s*(?:\*\*|\^)\s*|1\s*<<\s*)(?P<stages>[A-Za-z]\w*)\b(?!\s*[-+*/(])"
    r"|\b(?P<stages_>[A-Za-z]\w*)\s*=\s*log_?2\s*\(?\s*(?P<power_>[A-Za-z]\w*)\b(?!\s*[-+*/])(?!\s*\)\s*[-+*/])"
    r"|(?<!\b[Ii]f )(?<!\b[Ww]hether )(?<!\b[Uu]nless )(?<!\b[Ww]hen )\b(?P<alone>[A-Za-z]\w*)\s*(?:,\s*)?(?:is |must be |has to be |being )?a power of (?:two|2)\b"
)
_STAGES = 3
_SHARE = re.compile(r"(?P<name>[A-Za-z]\w*)(?://(?P<share>\d+))?")
_AXES = re.compile(r"\[([^\[\]]*)\]")
_LETTERS = re.compile(r"[^\W\d]\w*")


def with_relations(told: Mapping[str, Clue], written: str) -> dict[str, Clue]:
    """The clues, each with what the text says of it and others."""
    alike = _with_equal_shapes(_with_class_labels(dict(told)), written)
    ordered = _with_powers(_ordered(alike, written), written)
    related = _with_related_sizes(ordered, written)
    brackets = " ".join(dims for clue in related.values() for dims in _AXES.findall(clue.spec))
    axes = set(re.findall(r"\w+", brackets))
    return {name: _within(clue, axes) for name, clue in related.items()}


def _with_class_labels(told: dict[str, Clue]) -> dict[str, Clue]:
    """The clues, with labels of one axis beside logits of two as class numbers: `labels: (n,), logits: (n, c)`."""
    scores = next((told[n].spec for n in _SCORES if n in told and told[n].spec.startswith("f32[")), "")  # fmt: skip
    axes = scores.removeprefix("f32[").removesuffix("]").split()
    if len(axes) != 2:
        return told
    labels = {
        name: replace(told[name], spec=f"i32[{axes[0]}] in 0..{axes[1]}", kind=Kind.INTEGERS)
        for name in _LABELS
        if name in told
        and told[name].spec in (f"f32[{axes[0]}]", f"i32[{axes[0]}]")
        and not told[name].domain
    }
    return {**told, **labels} if axes[1].isidentifier() else told


def _with_equal_shapes(told: Mapping[str, Clue], written: str) -> dict[str, Clue]:
    """The clues, with which arrays have one shape, where the text does not say which: `lon and lat have the same shape`."""
    found = dict(told)
    listed = [re.findall(r"\w+", match["names"]) for match in _ALIKE.finditer(written)]
    for match in _ALL_ALIKE.finditer(written):
        words = _LETTERS.findall(_BESIDE_NAMES.sub(" ", match["names"]))
        listed += [words] if all(word in told for word in words) else []
    for words in listed:
        names = [n for n in words if n in told and told[n].kind not in _NO_ARRAYS]
        for name in names[1:]:
            if not found[name].spec and not found[names[0]].spec:
                found[name] = replace(found[name], alike=names[0])
    return found


def _ordered(told: Mapping[str, Clue], written: str) -> dict[str, Clue]:
    """The clues, with which integers are the least of others: `token_lengths <= frame_lengths`."""
    found = dict(told)
    for match in _NOT_ABOVE.finditer(written):
        lesser, greater = match["lesser"], match["greater"]
        both = [told[name].kind for name in (lesser, greater) if name in told]
        if both == [Kind.INTEGERS, Kind.INTEGERS]:
            found[greater] = replace(told[greater], least_of=lesser)
    return found


def _axes_of(told: Mapping[str, Clue]) -> set[str]:
    """The names of all axes."""
    each = (dims for clue in told.values() for dims in _AXES.findall(clue.spec))
    return {name for dims in each for name in _LETTERS.findall(dims)}


def _with_powers(told: Mapping[str, Clue], written: str) -> dict[str, Clue]:
    """The clues, with numbers for sizes of which one is a power of two, and for its exponent: `n = 2 ** stages`."""
    numbers: dict[str, int] = {}
    axes = _axes_of(told)
    for match in _POWER.finditer(written):
        stages = match["stages"] or match["stages_"]
        if stages and stages not in axes:
            continue  # it is an argument, and has its own numbers: `levels = 2 ** bits`
        numbers[match["power"] or match["power_"] or match["alone"]] = 2**_STAGES
        numbers |= {stages: _STAGES} if stages else {}
    every = [axis for clue in told.values() for dims in _AXES.findall(clue.spec) for axis in dims.split()]  # fmt: skip
    if not numbers or not all(_has_value(axis, numbers) for axis in every):
        return dict(told)

    def valued(dims: re.Match[str]) -> str:
        return f"[{' '.join(_value(axis, numbers) for axis in dims[1].split())}]"

    return {n: replace(clue, spec=_AXES.sub(valued, clue.spec)) for n, clue in told.items()}


def _has_value(axis: str, numbers: Mapping[str, int]) -> bool:
    """Does it speak of none of these names, or is it one, or a share of one?"""
    match = _SHARE.fullmatch(axis)
    return numbers.keys().isdisjoint(_LETTERS.findall(axis)) or (match is not None and int(match["share"] or 1) <= 2**_STAGES)  # fmt: skip


def _value(axis: str, numbers: Mapping[str, int]) -> str:
    """The size of an axis of which the text gives the number: that of `n`, of `n//2`."""
    match = _SHARE.fullmatch(axis)
    if match is None or match["name"] not in numbers:
        return axis
    return str(numbers[match["name"]] // int(match["share"] or 1))


def _with_related_sizes(told: Mapping[str, Clue], written: str) -> dict[str, Clue]:
    """The clues, the larger of two sizes in terms of the smaller one: each is related once, and what ranges rest on is not."""
    axes = _axes_of(told)
    ranges = " ".join(_AXES.sub("", clue.spec) + clue.domain for clue in told.values())
    free = axes - set(_LETTERS.findall(ranges))
    larger: dict[str, str] = {}
    for lesser, greater, form in _relations(written):
        known = (lesser in axes or lesser.isdecimal()) and greater in free and lesser != greater
        if known and not {lesser, greater} & larger.keys():
            larger[greater] = form.format(lesser, greater)
    if not larger:
        return dict(told)
    return {name: replace(clue, spec=_put(clue.spec, larger)) for name, clue in told.items()}


def _relations(written: str) -> Iterator[tuple[str, str, str]]:
    """The smaller size, the larger one, and what the larger one is of both."""
    for match in _PART_FIRST.finditer(written):
        yield match[1], match[2], "2*{0}"
    for match in _WHOLE_FIRST.finditer(written):
        yield match[2] or match[4], match[1] or match[3], "2*{0}"
    for match in _LESSER_FIRST.finditer(written):
        yield match[1], match[2], "{0}+{1}_rest"
    for match in _GREATER_FIRST.finditer(written):
        yield match[2], match[1], "{0}+{1}_rest"
    for match in _NUMBER_FIRST.finditer(written):
        least = match["least"] or match["number"] or match["count"]
        if 1 < int(least) <= _MOST:
            yield least, match[2] or match[3] or match[6], "{1}_rest+{0}"
    for match in _MORE.finditer(written):
        greater, lesser = (_called(word) for word in match.groups())
        yield from ((b, a, "{0}+{1}_rest") for b in lesser for a in greater)


def _called(word: str) -> list[str]:
    """What an axis is called that a text speaks of in the plural: `dimensions` of `dim`."""
    return [word, word.removesuffix("s"), *(["dim", "d", "D"] if word == "dimensions" else [])]


def _put(spec: str, larger: Mapping[str, str]) -> str:
    """The spec with larger sizes in terms of the smaller ones, where they are axes by themselves."""

    def related(dims: re.Match[str]) -> str:
        return f"[{' '.join(larger.get(dim, dim) for dim in dims[1].split())}]"

    return _AXES.sub(related, spec)


def _within(clue: Clue, axes: Collection[str]) -> Clue:
    """The clue without a range that ends at something that is no dimension."""
    match = re.search(r" in \d+\.\.([^\W\d]\w*)$", clue.spec)
    if match is None or match[1] in axes:
        return clue
    return replace(clue, spec=clue.spec[: match.start()])
