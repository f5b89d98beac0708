"""A sweep over every float: its shares, its parts, its map."""

from __future__ import annotations

import msgspec

from gradcheck_cli.contract.report import Evidence


class Map(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sweep: for each number that was judged, stretches of floats with one fate."""

    schema_version: int = 1
    gradient: str
    path: str
    line: int
    dtype: str
    arguments: list[str]
    results: list[str]
    evidence: Evidence
    floats: int
    complete: bool
    stretches: list[Stretch]
    levels: list[list[float]]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring floats with one fate, as ordinals (one for each argument); a box if there are several."""

    result: int
    kind: str
    first: list[int]
    last: list[int]
    count: int
    within: bool  # is one of them of a size that models meet (SEMANTICS A5)?
    bits: float | None = None  # at the worst of them, which is `at`
    at: list[int] | None = None


class Swept(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of a sweep is done: `part` of `parts`."""

    gradient: str
    line: int
    dtype: str
    arguments: list[str]
    results: list[str]
    part: int
    parts: int
    floats: int
    evidence: Evidence
    stretches: list[Stretch]
    levels: list[list[float]]  # for each result the least correct bits, in order of the argument


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a sweep that one worker is to do: each whose number leaves `number` when divided by `of`."""

    number: int
    of: int
    done: list[int] = []
    grid: int = 4096  # points, where there are too many floats for all
