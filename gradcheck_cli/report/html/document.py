"""The frame of a page: its head, its style and its scripts, all inside; nothing else may run or be loaded."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from importlib.util import find_spec

from gradcheck_cli.report.markup import Markup, element, joined

_PICTURE = "gradcheck_cli.report.picture"


def document(title: str, body: Markup, *, plots: bool) -> str:
    """The whole document; with `plots`, and if plotly is installed, they can be zoomed."""
    scripts = [_read(__package__, "page.js")]
    if plots and (plotly := _plotly()) is not None:
        scripts.insert(0, plotly)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; script-src {_hashes(scripts)}"
    style = _read(_PICTURE, "picture.css") + _read(__package__, "page.css")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(style)),
    )
    ending = [element("script", Markup(script)) for script in scripts]
    page = element("html", head, element("body", body, *ending), lang="en")
    return joined(Markup("<!doctype html>\n"), page, "\n")


def _plotly() -> str | None:
    """The script of plotly, as its package ships it."""
    if find_spec("plotly") is None:
        return None
    file = resources.files("plotly").joinpath("package_data", "plotly.min.js")
    return file.read_text("utf-8") if file.is_file() else None


def _hashes(scripts: list[str]) -> str:
    """The only scripts that a browser may run, by what is in them."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")
