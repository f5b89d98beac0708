"""What a text says of one parameter: its shape, its kind, its domain, what it is like."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gradcheck_cli.clues.prose.chains import without_chains
from gradcheck_cli.clues.prose.distinct import are_distinct
from gradcheck_cli.clues.prose.domains import branches, domain
from gradcheck_cli.clues.prose.kinds import sort_in_sentence, sort_of, words
from gradcheck_cli.clues.prose.passages import Passage, passages
from gradcheck_cli.clues.prose.shapes import ALTERNATIVE, Shape, shape
from gradcheck_cli.clues.prose.trees import tree
from gradcheck_cli.inputs.clue import Kind

_SAME = re.compile(
    r"\bsame (?:shape|size|dimensions?)(?: and (?:d?type|size))? (?:as|of|with) (?:the "
    r"|that of )?(?P<other>\w+)|\bshape(?: of)?\W{1,3}(?P<attribute>\w+)\.shape\b"
    r"|\b(?:of|with|has|have) (?P<owner>\w+)(?:'s|(?<=s)') shape\b|\b(?:of|with) the shape of (?:the )?(?P<shaped>\w+)"
    r"|\bshaped like (?P<like>\w+)|\blike (?P<alike>\w+)\b",
    re.IGNORECASE,
)
_SAME_SHAPE = re.compile(r"\bsame shape\b(?!\s*(?:as|of|with|\w+ed|but|except)\b)", re.IGNORECASE)
# `theta_u: The same among non-matches`, below `theta_m`
_THE_SAME = re.compile(r"\W*the same (?:among|(?:for|of) the others?)\b", re.IGNORECASE)
# Right behind a name inside a sentence: `the universe (bool, same shape)`, `ticks is an integer table of the same shape`.
_LIKENESS = re.compile(
    r"\s*\((?P<inside>[^()]*\bsame shape(?: as \w+)?)\)"
    r"|\s+(?:is|are)\s+(?P<clause>an?\s(?:[\w-]+\s+){1,4}(?:of|with|in)\s+the\s+same\s+shape\b(?:\s*:[^.;]*)?)"
)
_BUT = re.compile(r"\s*,?\s*(?:but|except|without|apart|or\b|with\b[^,.;]*\b(?:sized?|one|1|kept|dims?|axis|axes)\b)", re.IGNORECASE)  # fmt: skip
_MENTIONED_TREE = re.compile(
    r"(?:\W*(?:(?:is|are)\s+)?(?:an?\s+)?(?=(?:nested\s+)?(?:dict|dictionary|pytree|tuple|pair|list)\b)"
    r"|\s*(?:(?:is|are|=|:)\s*)?(?=[({])(?![^(){}]*\)\s*$))(?P<rest>.*)"
)
_CHOSEN = re.compile(
    r"\s*(?:(?:is|are|can be|may be|must be|should be|in|:|=|,)\s*)?(?:either\s+|one of\s+)?[\[({]?['\"]"
)
# `integer counts y`; `every row of the table carries an integer repeats`
_SEVERAL_INTEGERS = re.compile(
    r"\b(?:integer|whole)(?:-valued)?\s+[a-z]+s\s+$|\b(?:each|every)\s[^.;:,]*\s(?:carries|has|holds|gets|bears)\s+an\s+integer\s+$",
    re.IGNORECASE,
)
_IS_TRUE = re.compile(r"\s+(?:is|are)\s+(?:True|False)\b")
_WHERE = re.compile(r"\b(?:where|for which|in which|whose)\s+(?:the\s+)?$", re.IGNORECASE)
_MARKED = re.compile(r"\b(?:marked|flagged)\s+in\s+(?:the\s+)?`*$", re.IGNORECASE)
# `keep marks the elements that count`
_MARKS = re.compile(
    r"\W*(?:marks|flags)\s+(?:(?:the|all)\s+)?(?:[a-z]+s\s+(?:that|which)\s+(?:are|were|count|enter|take|stay)\b"
    r"|(?:real|valid|true|padded|missing|observed)\s+[a-z]+s\b)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"label|class|ids?$|index|indices|kind|type|code|target", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\b(?:at|by|with|over|from|to|and|for|of)\b")
_MANY_AXES = 3  # `q: b h q d`: among so many, one may have the array's own letter
_INDEX = re.compile(r"[a-z](?:[+-].*)?")  # as a formula has it: `z[b, q + 1]`
PREVIOUS = "<previous>"  # of `same shape`: no name of a parameter


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says of one parameter, before it is a spec."""

    about: str = ""  # all that the entries of it say
    shape: Shape | None = None
    domain: str = ""
    sort: Kind = Kind.NOTHING
    same_as: str = ""
    tree: str = ""
    distinct: bool = False  # of integers: no two are alike


def reading_of(
    text: str, name: str, names: Sequence[str], certain: Collection[str], *, near: bool
) -> Reading:
    spoken = passages(text, name, names)
    entries = [p for p in spoken if p.entry]
    about = " ".join(p.after for p in entries)
    sorts = (sort_of(p.after) for p in entries)
    sort = next((s for s in sorts if s is not Kind.NOTHING), Kind.NOTHING)
    shapes = [] if sort is Kind.TREE else [s for p in entries if (s := shape(p, certain))]
    plain = sort in (Kind.NUMBER, Kind.WHOLE)  # in a sentence, a shape may be the result's
    mentioned = [s for p in spoken if not (p.entry or plain) and (s := shape(p, certain))]
    agreed = _agreed([s for s in shapes if s.dims]) or (None if any(s.dims for s in shapes) else _agreed([s for s in mentioned if s.dims]))  # fmt: skip
    agreed = agreed or (_agreed([*shapes, *mentioned]) if near else None)
    if (
        agreed is not None
        and agreed.dims is not None
        and name.islower()
        and name in agreed.dims.names
        and len(agreed.dims.names) < _MANY_AXES
        and not _is_led_by(agreed, spoken)
    ):
        agreed = None  # `n` in "the n x n output" is a size, and no array
    if sort is not Kind.NOTHING and (agreed is None or agreed.dims is None):
        agreed = None
    if agreed is not None and agreed.dims is not None and not about:
        about = _beside(agreed, spoken)
    about = (
        about or _of_a_likeness(spoken) or _choice_in_sentence(spoken) or _integers_before(spoken)
    )
    has_axes = agreed is not None and agreed.dims is not None and bool(agreed.dims.names)
    if (has_axes and _is_true_or_false(spoken)) or _is_marked(spoken, name):
        about = f"{about} boolean mask".lstrip()
    return Reading(
        about=about,
        tree=tree(about, certain) or _mentioned_tree(spoken, certain),
        shape=agreed,
        domain=_domain_in(text, name, names, spoken) if near else "",
        sort=_mentioned_sort(spoken) if sort is Kind.NOTHING else sort,
        same_as=_same_as(spoken, name, names),
        distinct=near and are_distinct(spoken),
    )


def _is_led_by(shape_said: Shape, spoken: Sequence[Passage]) -> bool:
    """Does the shape stand right behind the name: `anchors is (anchors, dim)`?"""
    behind = (p.after.removeprefix(" is").lstrip() for p in spoken)
    return any(text.startswith(shape_said.written) for text in behind)


def _beside(shape_said: Shape, spoken: Sequence[Passage]) -> str:
    """What a sentence says around the shape it gives: `integer ids (n,) in [0, m)`."""
    for passage in (p for p in spoken if not p.entry):
        at = passage.after.find(shape_said.written)
        if 0 <= at < 60:
            noun = re.search(r"(?:[\w-]+\s+){0,2}$", passage.before)
            behind = passage.after[at + len(shape_said.written) :]
            other = ALTERNATIVE.match(behind)
            start = 0 if other is None else other.end()
            end = _ELSEWHERE.search(behind, start)
            kept = passage.after[:at] + (behind[: end.start()] if end else behind)
            return f"{noun.group() if noun else ''}{kept}"
    return ""


def _of_a_likeness(spoken: Sequence[Passage]) -> str:
    """What a sentence says beside a likeness right behind the name."""
    behind = (_LIKENESS.match(p.after) for p in spoken if not p.entry)
    return next((match["inside"] or match["clause"] for match in behind if match), "")


def _choice_in_sentence(spoken: Sequence[Passage]) -> str:
    """What a sentence lists in quotes right behind the name: `kind is "call" or "put"`."""
    behind = (p.after for p in spoken if not p.entry)
    return next((text for text in behind if _CHOSEN.match(text) and words(text)), "")


def _integers_before(spoken: Sequence[Passage]) -> str:
    """What a sentence calls several integers: `integer counts y`."""
    before = (p.before for p in spoken if not p.entry and not p.common_word)
    return "integers" if any(map(_SEVERAL_INTEGERS.search, before)) else ""


def _is_true_or_false(spoken: Sequence[Passage]) -> bool:
    """Does a sentence say where it is one of these: `where running is False`?"""
    mentions = (p for p in spoken if not p.entry)
    return any(_IS_TRUE.match(p.after) and _WHERE.search(p.before) for p in mentions)


def _is_marked(spoken: Sequence[Passage], name: str) -> bool:
    """Does a sentence say that things are marked in it: `at the times that are marked in keep`? Labels mark with numbers."""
    mentions = [p for p in spoken if not p.entry and not p.common_word]
    marked = any(_MARKED.search(p.before) or _MARKS.match(p.after) for p in mentions)
    return marked and not _NUMBERED.search(name)


def _agreed(shapes: Sequence[Shape]) -> Shape | None:
    """The first shape, if no other contradicts it; what a formula indexes with single letters is none: `z[b, q]`."""
    said = {s.dims.text if s.dims else str(s.rank): s for s in shapes}
    named = [s for s in said.values() if s.dims and not all(map(_INDEX.fullmatch, s.dims.names))]
    if len(named) == 1 and len(said) > 1:
        ranks = {len(s.dims.names) if s.dims else -1 for s in said.values()}
        return named[0] if len(ranks) == 1 else None
    return shapes[0] if len(said) == 1 else None


def _domain_in(text: str, name: str, names: Sequence[str], spoken: Sequence[Passage]) -> str:
    """The domain, also by a chain as `a > b > 0`."""
    said, one_by_one = _domain(text, name, spoken), without_chains(text, names)
    if said or one_by_one == text:
        return said
    return _domain(one_by_one, name, passages(one_by_one, name, names))


def _domain(text: str, name: str, spoken: Sequence[Passage]) -> str:
    """The domain from entries; from sentences where these tell no cases apart."""
    if name.startswith("log"):
        spoken = [
            p
            for p in spoken
            if not re.search(r"probabilit|distribution|softmax", p.after + p.before)
        ]
    entries = [d for p in spoken if p.entry and (d := domain(p))]
    if entries:
        return entries[0]
    if branches(text, name):
        return ""
    mentioned = {d for p in spoken if not p.entry and (d := domain(p))}
    return mentioned.pop() if len(mentioned) == 1 else ""


def _mentioned_sort(spoken: Sequence[Passage]) -> Kind:
    """`the scalar c`, `n is an integer`: a plain number in a sentence."""
    for passage in (p for p in spoken if not p.entry and not p.common_word):
        sort = sort_in_sentence(passage.before, passage.after)
        if sort is not Kind.NOTHING:
            return sort
    return Kind.NOTHING


def _mentioned_tree(spoken: Sequence[Passage], certain: Collection[str]) -> str:
    """`params is a dict with w (n, k) and b (k,)`, inside a sentence."""
    for passage in (p for p in spoken if not p.entry):
        match = _MENTIONED_TREE.match(passage.after)
        spec = "" if match is None else tree(match["rest"], certain)
        if spec:
            return spec
    return ""


def _same_as(spoken: Sequence[Passage], name: str, names: Sequence[str]) -> str:
    for passage in spoken:
        match = _SAME.search(passage.after)
        if match is not None:
            other = next(group for group in match.groups() if group)
            if other in names and other != name and not _BUT.match(passage.after, match.end()):
                return other
        elif passage.entry:
            if _SAME_SHAPE.search(passage.alone):
                return PREVIOUS
            if _THE_SAME.match(passage.alone) and name in names[1:]:
                return names[names.index(name) - 1]
        elif _SAME_SHAPE.search(_of_a_likeness([passage])):
            return PREVIOUS
    return ""
