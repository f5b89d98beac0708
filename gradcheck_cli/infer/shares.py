"""Axes of which others are shares: where one is `R//2`, every `R` is two of these."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.infer.template import Hole

_SHARE = re.compile(r"(?<![\w/*])(?P<name>[^\W\d]\w*)//(?P<parts>\d+)(?![\w/*])")
_WHOLE = re.compile(r"(?:(?P<times>\d+)\*)?(?P<name>[^\W\d]\w*)")


def in_shares(holes: Sequence[Hole]) -> tuple[Hole, ...]:
    """The holes with every axis that is divided somewhere as a multiple of its smallest share."""
    parts: dict[str, int] = {}
    for dim in (dim for hole in holes for dim in hole.dims or ()):
        for match in _SHARE.finditer(dim):
            parts[match["name"]] = math.lcm(int(match["parts"]) or 1, parts.get(match["name"], 1))

    def share(match: re.Match[str]) -> str:
        return _times(parts[match["name"]] // int(match["parts"]), match["name"])

    def whole(match: re.Match[str]) -> str:
        if match["name"] not in parts:
            return match[0]
        return _times(parts[match["name"]] * int(match["times"] or 1), match["name"])

    def told(dim: str) -> str:
        return _SHARE.sub(share, dim) if _SHARE.search(dim) else _WHOLE.sub(whole, dim)

    return tuple(
        hole if hole.dims is None else replace(hole, dims=tuple(told(d) for d in hole.dims))
        for hole in holes
    )


def _times(count: int, name: str) -> str:
    return f"{name}_part" if count == 1 else f"{count}*{name}_part"
