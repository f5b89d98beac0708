"""What the judged inputs would have shown, as the report tells it: numbers, and what nobody would have seen."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.adequacy.change import Change, Part, Showing
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.settings_tried import settings_tried
from gradcheck_cli.contract.report import Adequacy, Finding, UnseenChange
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.discover import lines
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.project.rule_pages import find

_MOST_LISTED = 12
_ONE_BLOCK = "its kernels took all in one block, in every call"
_ONE_PIECE = "no axis was longer than one piece of {}, in any call"


def adequacy_of(request: Request, outcome: GradientOutcome) -> Adequacy | None:
    """The adequacy of all signatures together; none where no rule was judged."""
    showings = outcome.showings
    if not showings.showings and not showings.not_covered:
        return None
    hints = {change.key: hint for change, hint in outcome.possible}
    # What no other shapes of the function would show is no question.
    showings = showings.without({c for c in showings.degenerate if c.key not in hints})
    unseen = [_unseen_change(c, request.site, hints.get(c.key)) for c in showings.unseen]
    settings = settings_tried(outcome)
    unseen += [_setting(f"`{name}` was {value} in every call") for name, value in settings.still]
    if outcome.kernels and all(kernel.is_whole for kernel in outcome.kernels):
        unseen.append(_setting(_ONE_BLOCK))
    unseen += [_setting(_ONE_PIECE.format(length)) for length in outcome.one_piece]
    shown = showings.shown + len(settings.moved)
    return Adequacy(
        shown=shown,
        counted=shown + len(unseen),
        equal=showings.count(Showing.EQUAL),
        forgiven=showings.count(Showing.FORGIVEN),
        unseen=unseen[:_MOST_LISTED],
        not_covered="; ".join(showings.not_covered) or None,
    )


def blind_inputs(request: Request, adequacy: Adequacy | None) -> list[Finding]:
    """A note where changes of shape, axis, operand or branch would have passed."""
    hidden = [] if adequacy is None else [u for u in adequacy.unseen if u.of_shape]
    if not hidden:
        return []
    rule, site = find(RuleName.BLIND_INPUTS), request.site
    hint = next((u.hint for u in hidden if u.hint), None)
    where = "" if hidden[0].line is None else f"line {hidden[0].line}, "
    more = f", and {len(hidden) - 1} more" if len(hidden) > 1 else ""
    finding = rule.finding(
        site.path,
        site.line,
        f"right at the shapes tried; they would not have shown: {where}{hidden[0].change}{more}",
        about=request.gradient.place.qualname,
        help=hint and f"add {hint} to the line that defines it",
    )
    return [replace(finding, gradient=request.gradient.place.qualname)]


def _setting(change: str) -> UnseenChange:
    """What was one and the same in every call: what another one would show nobody knows."""
    return UnseenChange(
        change=change,
        kind="setting",
        of=Part.PRIMAL.value,
        path=None,
        line=None,
        hint=None,
        of_shape=True,
    )


def _unseen_change(change: Change, site: Site, hint: str | None) -> UnseenChange:
    path = lines.shown(change.key.path, site.root) if change.key.path else site.path
    return UnseenChange(
        change=change.words,
        kind=change.kind.value,
        of=change.key.part.value,
        path=None if path == site.path else path,
        line=change.key.line or None,
        hint=hint,
        of_shape=change.kind.shapes_tell,
    )
