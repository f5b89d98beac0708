"""Intents as text: `expect(straight-through)`, `expect(scaled=-1.0)`, `expect(zero: alpha)`.

Read on the CLI's side too, so nothing heavy is imported.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from gradcheck_cli.project.input_specs import SpecError, condition


@dataclass(frozen=True, slots=True)
class Form:
    """How an intent is declared, and the law that it is held to."""

    example: str
    law: str
    wants: str | None = None  # what must stand in its brackets

    @property
    def wanted(self) -> str:
        return f"{self.wants}, as in `expect({self.example})`"


FORMS = {
    "straight-through": Form(
        "straight-through",
        "the gradient is handed on as it came, or as if each rounding, and each bound, were not there",
    ),
    "surrogate": Form("surrogate", "wherever rule and derivative differ, the derivative is zero"),
    "scaled": Form("scaled=-1.0", "so many times the truth, everywhere", "a number or an argument"),
    "clipped": Form(
        "clipped",
        "never larger than the truth, never of the other sign, but for bounds that are arguments",
    ),
    "zero": Form("zero: alpha", "no gradient for that argument", "an argument"),
    "subgradient": Form("subgradient", "the truth but at kinks, where it may be another number"),
    "safe-at": Form("safe-at: x = 0", "the truth but at that point", "a place"),
    "manifold": Form("manifold: q", "the truth, projected on a tangent space", "an argument"),
    "gauge": Form("gauge", "the truth for losses that do not see how a basis is turned"),
    "estimator": Form("estimator", "the truth on average over keys, within a confidence interval"),
    "domain": Form("domain: x > 0", "the truth there", "a condition"),
}
# What nobody can declare: a name or a text hints in this word that the derivative is meant to be another, or
# says so outright.
DEVIATES, ON_PURPOSE = "deviates", "on purpose"
# Or that an argument is held constant, and nothing else.
HELD = "held"
# Nor this: the rule itself says that an argument gets no gradient.
WITHHELD = "withheld"
# In its brackets may stand an interval's own, open or closed at either end.
EXPECT = re.compile(
    r"expect\(\s*(?P<name>[a-z-]+)\s*"
    r"(?:[=:]\s*(?P<argument>[^()\[\]]*(?:[(\[][^()\[\]]*[)\]])?[^()\[\]]*))?\)"
)


_MOST_SHOWN = 24  # characters of a text


class IntentError(Exception):
    """What is wrong with a declaration."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One intent as it is declared; what only prose says binds nobody where it does not hold."""

    name: str
    argument: str | None
    in_prose: bool = False

    @property
    def text(self) -> str:
        if self.argument is None:
            return self.name
        return (
            f"{self.name}={self.argument}"
            if self.name == "scaled"
            else f"{self.name}: {self.argument}"
        )


def parse(text: str) -> list[Declared]:
    """All intents of a comment, in order."""
    intents: list[Declared] = []
    rest = text
    while rest := rest.strip(" ,\t"):
        match = EXPECT.match(rest)
        if match is None:
            word = re.match(r"[a-z-]*", rest)
            named = word.group() if word is not None and word.group() in FORMS else ""
            meant = rest if named and "(" not in rest else named or "straight-through"
            raise IntentError(f"write `expect({meant[:_MOST_SHOWN]})` (at `{rest[:_MOST_SHOWN]}`)")
        intents.append(_declared(match["name"], match["argument"]))
        rest = rest[match.end() :]
    return intents


def _declared(name: str, argument: str | None) -> Declared:
    if name not in FORMS:
        close = difflib.get_close_matches(name, FORMS, n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"one of {', '.join(FORMS)}"
        raise IntentError(f"no intent is called `{name}`; {hint}")
    form = FORMS[name]
    value = (argument or "").strip() or None
    if form.wants is not None and value is None:
        raise IntentError(f"`{name}` wants {form.wanted}")
    if form.wants is None and value is not None and name != "straight-through":
        raise IntentError(f"`{name}` takes nothing more")
    if name == "scaled":
        try:
            float(value or "")
        except ValueError:
            if not re.fullmatch(r"-?[A-Za-z_]\w*", value or ""):
                raise IntentError(f"`{value}` is no number: {form.wanted}") from None
    if name == "domain":
        try:
            condition(value or "")
        except SpecError as error:
            raise IntentError(str(error)) from None
    if name == "safe-at" and not re.fullmatch(r"\w+\s*=\s*\S+", value or ""):
        raise IntentError(f"`{name}` wants {form.wanted}")
    return Declared(name, value)
