"""What mkdocs asks while it builds the site: pages that lie beside docs/, and links to what lies there.

A link in docs/ is written as it holds in the repository, so that the pages read well there too.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from gradcheck_cli.project.rule_pages import rules

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\((?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")  # pages of the site that lie in the repository's root
_HOLDS = "rules"  # and the folder of which each file is one


def on_files(files: Files, config: Any) -> Files:
    """The site's files, with the pages that do not lie in docs/."""
    for name in _BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    for rule in rules().values():
        told = f"{rule.summary[:1].upper()}{rule.summary[1:]}: {rule.help}."
        facts = f"*{rule.code} · {rule.severity.value} · {rule.family}*\n\n{told}\n"
        title, _, body = rule.body.partition("\n")
        place = f"{_HOLDS}/{rule.family}/{rule.name}.md"
        files.append(File.generated(config, place, content=f"{title}\n\n{facts}{body}"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its links to files of the repository as links of the site."""
    beside_docs = page.file.src_uri in _BESIDE or page.file.src_uri.startswith(f"{_HOLDS}/")
    here = posixpath.dirname(page.file.src_uri)
    folder = here if beside_docs else posixpath.join("docs", here)
    return _LINK.sub(
        lambda link: f"]({_target(link['to'], folder, here)}{link['anchor'] or ''})", markdown
    )


def _target(link: str, folder: str, here: str) -> str:
    """Where a link leads, from a page in this folder of the repository and in that of the site."""
    if ":" in link:
        return link
    place = posixpath.normpath(posixpath.join(folder, link))
    within = place.removeprefix("docs/")
    return posixpath.relpath(within, here or ".")
