"""Reads `rules/`: one Markdown file a rule, with TOML front matter."""

from __future__ import annotations

import difflib
import functools
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Finding, Severity, Verdict

FENCE = "+++"


Values = float | list[float]  # a list is a vector


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What a pattern's page claims, in the pattern language: bad at a point, good and equal when rewritten."""

    naive: str
    stable: str
    at: dict[str, Values]  # where the naive one fails, in float32
    # And where both are equal over the reals, beside that point.
    where: list[dict[str, Values]] = []
    gradient: bool = False  # only the gradient fails there
    value_only: bool = False  # the stable form's gradient is not claimed to keep its digits
    fix: Literal["safe", "unsafe"] | None = None  # may the linter write the stable form?


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """One rule page: its place, its front matter and its text."""

    name: str
    family: str
    code: str
    severity: Severity
    summary: str
    help: str
    verdict: Verdict | None = None  # what a finding above a note makes of its gradient
    verdict_of_note: Verdict | None = None  # what a note makes of it
    any_backend: bool = False  # it is about the rule as written, not about one backend's floats
    correctable: bool = False  # a change of the rule's text may make it right
    witness: bool = True  # are there numbers that show it, also where it holds everywhere?
    could_not_check: bool = False  # its file could not be checked at all
    death: bool = False  # its worker died
    example_options: list[str] = []  # what the page's example is checked with
    example_settings: dict[str, int] = {}
    static: bool = False  # it is read off the source, without a pattern
    patterns: list[str] = []  # of the linter: `log(1 + exp(x)) if grows(x)`
    gradient_only: bool = False  # the value is fine, so only code that is differentiated is meant
    digits: bool = False  # it costs digits of float32, which float64 has to spare
    keeps_range: bool = False  # what it writes keeps the range, and no digit more
    at_zero: bool = False  # it fails at zero alone, which a comparison before it may keep away
    only_in: list[str] = []  # frameworks by their modules; empty: all
    proof: list[Proof] = []
    body: str

    @property
    def is_static(self) -> bool:
        """Is it one of the linter's, which reads source alone?"""
        return self.static or bool(self.patterns)

    @property
    def about_floats(self) -> bool:
        """Is the truth fine, and only what the floats make of it is not?"""
        return self.verdict is Verdict.UNSTABLE

    def finding(
        self, path: str, line: int, message: str, *, about: str = "", help: str | None = None
    ) -> Finding:
        """A finding about a file; `about` tells two of the same rule in one file apart."""
        return Finding(
            rule=self.name,
            code=self.code,
            severity=self.severity,
            path=path,
            line=line,
            message=message,
            help=help or self.help,
            fingerprint="-".join(filter(None, (self.code, path, about))),
        )


def folder() -> Path:
    """Where the pages are: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parent.parent
    shipped = package / "rules"
    return shipped if shipped.is_dir() else package.parent / "rules"


@functools.cache
def rules() -> dict[str, Rule]:
    """All rules by name, in the order of their codes."""
    pages = [_read(path) for path in folder().glob("*/*.md")]
    return {rule.name: rule for rule in sorted(pages, key=lambda rule: rule.code)}


def find(name: str) -> Rule:
    """A rule by name or code; a helpful error otherwise."""
    pages = rules()
    if name in pages:
        return pages[name]
    for rule in pages.values():
        if rule.code == name.upper():
            return rule
    close = difflib.get_close_matches(name, list(pages), n=1)
    hint = f"; did you mean `{close[0]}`?" if close else "; `cgcheck rules` lists them"
    raise UsageError(f"there is no rule `{name}`{hint}")


def matching(selector: str) -> frozenset[str]:
    """Rule names for a name, a code, a code prefix (`CG2`) or a family (`stability`)."""
    wanted = selector.strip()
    hits = frozenset(
        rule.name
        for rule in rules().values()
        if wanted in (rule.name, rule.family)
        or wanted.upper() == "ALL"
        or (wanted[:2].upper() == "CG" and rule.code.startswith(wanted.upper()))
    )
    return hits or frozenset({find(wanted).name})


def sentence(summary: str) -> str:
    """A summary as a sentence: a word gets its capital, a formula that it begins with does not."""
    first, _, _ = summary.partition(" ")
    is_word = first.isalpha() and (len(first) > 1 or first == "a")
    return f"{summary[:1].upper() if is_word else summary[:1]}{summary[1:]}."


def _read(path: Path) -> Rule:
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split(FENCE, 2)
    place = {"name": path.stem, "family": path.parent.name, "body": body.strip() + "\n"}
    return msgspec.convert(tomllib.loads(front) | place, Rule)
