"""What mkdocs asks while it builds the site: pages that lie beside docs/, and links to what lies there.

A link in docs/ is written as it holds in the repository, so that the pages read well there too.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from gradcheck_cli.project.rule_pages import Rule, rules, sentence
from gradcheck_cli.project.suppressions import NEVER_IGNORED

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\((?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")  # pages of the site that lie in the repository's root
_PAIRS = "What both forms give where the naive one fails stands in [the cookbook](../../docs/do/cookbook.md)."
_HOLDS = "rules"  # and the folder of which each file is one


def on_files(files: Files, config: Any) -> Files:
    """The site's files, with the pages that do not lie in docs/."""
    for name in _BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    for rule in rules().values():
        title, _, body = rule.body.partition("\n")
        place = f"{_HOLDS}/{rule.family}/{rule.name}.md"
        text = f"{title}\n\n{_facts(rule)}{body.rstrip()}\n\n{_way_out(rule)}"
        files.append(File.generated(config, place, content=text))
    return files


def _facts(rule: Rule) -> str:
    """What stands below the title of a rule's page: where it belongs, what it finds, what to do."""
    family = f"[{rule.family}](../../docs/look-up/rules.md#{rule.family})"
    return (
        f"*{rule.code} · {rule.severity.value} · {family}*\n\n"
        f"{sentence(rule.summary)} **What to do**: {rule.help}.\n"
    )


def _way_out(rule: Rule) -> str:
    """How its findings are turned off; of a proved pair, where its numbers stand."""
    if rule.name == NEVER_IGNORED:
        return ""
    if rule.proof:
        return f"{_PAIRS}\n\n{_turned_off(rule)}"
    return _turned_off(rule)


def _turned_off(rule: Rule) -> str:
    comment = f"`# cgcheck: ignore[{rule.name}] -- why`"
    return f"## How to turn it off\n\n{comment} at its line; [other ways](../../docs/do/suppressing.md).\n"


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
