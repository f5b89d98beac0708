"""Elements of HTML and SVG: whatever is not markup already is escaped on its way in."""

from __future__ import annotations

import html

from gradcheck_cli.report.told import plain

_VOID = frozenset({"meta", "input", "br", "path", "line", "rect", "circle"})


class Markup(str):
    """Text that is markup; all other text is told as it is."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element: `class_` is the attribute class, `data_of` is data-of; False and None leave one out."""
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*parts: str) -> Markup:
    """Parts one after the other."""
    return Markup("".join(map(_safe, parts)))


def _safe(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(plain(text))


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(plain(text))}"'
