"""Words for several parameters at once: `masks bool` for `pos_mask` and `neg_mask`, each spelled out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_STARRED = re.compile(r"(?<![\w.*])(?P<stem>[^\W\d]\w*_)\*(?![\w*])")
_SAME_SHAPES = re.compile(r"\bthe same shapes?\b(?!\s+(?:as|of|with)\b)")


def spelled_out(text: str, names: Sequence[str]) -> str:
    """The text with an entry for each parameter where the plural of their last word has one, or a star: `sign_*`."""
    text = _STARRED.sub(lambda match: _all_of(match["stem"], names) or match[0], text)
    for plural, members in _plurals(names):
        if all(_is_named(member, text) for member in members):
            continue  # each has words of its own, in which the plural is another word
        said = re.compile(rf"(?<![\w.])(?:both\s+)?{plural}\b(?![_(])(?P<said>[^,.;\n]*)")
        text = said.sub(lambda match, of=members: _entries(of, match["said"], names), text)  # type: ignore[misc]
    return text


def _all_of(stem: str, names: Sequence[str]) -> str:
    """The parameters that begin so, where there are several: `sign_x, sign_y`."""
    members = [name for name in names if name.startswith(stem)]
    return ", ".join(members) if len(members) > 1 else ""


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def _plurals(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The plural of each last word that two parameters share, unless it is a parameter's own name."""
    members: dict[str, list[str]] = {}
    for name in names:
        word = name.rpartition("_")[2]
        members.setdefault(word if word.endswith("s") else f"{word}s", []).append(name)
    for plural, those in members.items():
        if len(those) > 1 and plural not in names and len(plural) > 2:
            yield plural, those


def _entries(members: Sequence[str], said: str, names: Sequence[str]) -> str:
    """`pos_mask: bool of the same shape as pos; neg_mask: …`."""
    return "; ".join(f"{name}: {_of_its_own(name, said, names)}" for name in members)


def _of_its_own(name: str, said: str, names: Sequence[str]) -> str:
    """`the same shape as pos` for `the same shapes`, of `pos_mask`."""
    first = name.rpartition("_")[0]
    if first not in names:
        return said
    return _SAME_SHAPES.sub(f"the same shape as {first}", said)
