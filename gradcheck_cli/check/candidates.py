"""Candidates beside the inputs that are judged: what the rule refuses, and the comment to write down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.worker import Candidates, RefusedInputs
from gradcheck_cli.infer.comment_of import comments_of
from gradcheck_cli.infer.probing import Attempt
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.project.input_specs import parse
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_LONGEST = 160  # of a message that stands in one line


def candidates(request: Request, start: Opening, probed: Attempt) -> Candidates:
    """What probing met beside the subjects that fit, and where their comment would go."""
    broken = [pair for pair in (probed.broken,) if pair is not None]
    refused = [
        RefusedInputs(signature.describe(), _in_a_line(error.message))
        for signature, error in (*broken, *probed.refused)
    ]
    place, site, task = request.gradient.place, request.site, request.task
    stated_by = "recorded calls" if start.hints.calls else ""
    if start.hints.specs:
        stated_by = start.hints.spec_source
    here = bool(task.path) and Path(place.path).resolve() == Path(task.path).resolve()
    return Candidates(
        refused=list(dict.fromkeys(refused)),
        vain=probed.vain,
        first_refusal=_in_a_line(probed.first_refusal),
        comment="" if stated_by else _comment(request, probed.subjects),
        stated_by=stated_by,
        first_line=place.line if here else 0,
        last_line=max(site.line, site.header_end) if here else 0,
    )


def _in_a_line(message: str) -> str:
    text = message.partition("\n")[0]
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _comment(request: Request, subjects: Sequence[Subject]) -> str:
    """The comment that gives the richest inputs again, in sizes of its own; empty if none does."""
    if not subjects:
        return ""
    richest = max(subjects, key=_richness)
    for text in comments_of(richest.signature):
        try:
            request.gradient.fit(_again(richest.signature, text), richest.dtype).traces()
        except (Rejected, RuleError, UserCodeError):  # in other sizes it does not fit
            continue
        return text
    return ""


def _richness(subject: Subject) -> tuple[int, int]:
    leaves = subject.signature.leaves
    return sum(len(leaf.shape) for leaf in leaves), sum(leaf.size for leaf in leaves)


def _again(signature: Signature, text: str) -> Signature:
    """The signature with the arguments of which the comment speaks as it gives them."""
    specs = parse(text)
    arguments = tuple(
        (name, specified(name, specs[name], "a comment") if name in specs else value)
        for name, value in signature.arguments
    )
    return Signature(arguments, signature.keywords)
