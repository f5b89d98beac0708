"""Custom gradients that the source defines and the run did not meet, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import NotCovered
from gradcheck_cli.contract.worker import Mark, Unreached
from gradcheck_cli.project.files import spoken
from gradcheck_cli.project.framework_marks import SOLUTIONS, UNJUDGED
from gradcheck_cli.subject.protocol import CustomGradient, Framework
from gradcheck_cli.subject.results import Missing

_MADE = "a line at module level that makes it, such as `{} = …`"
_UNJUDGED = f"rules of a `{UNJUDGED}` are not judged: write it as a `custom_vjp` to have it checked"


def unreached(
    marks: Sequence[Mark], gradients: Sequence[CustomGradient], missing: Sequence[Missing]
) -> Iterator[Unreached]:
    """Marks without a gradient; what is `missing` has its reason with it."""
    scopes = {item.place.qualname: item.reason for item in missing if item.is_scope}
    for item in missing:
        if not item.is_scope:
            yield _unreached(item.place.qualname, item.reason, item.add)
    met = {spoken(g.place.definition or g.place.qualname) for g in gradients}
    met |= {spoken(item.place.qualname) for item in missing}
    around = _around_solutions(gradients)
    names = [mark.name for mark in marks]
    made = {g.place.made for g in gradients}
    for mark in (m for m in marks if m.line not in made):
        name, scope = mark.name, mark.scope or ""
        single = names.count(name) == 1 and any(q.rpartition(".")[2] == name for q in met)
        if single or mark.is_anonymous or f"{scope}.{name}".strip(".") in met:
            continue
        if mark.kind == UNJUDGED:
            yield Unreached(not_covered=NotCovered.whole(name, _UNJUDGED))
        elif mark.kind in SOLUTIONS:
            if not any(f"{scope}.".startswith(f"{owner}.") for owner in around):
                yield _unsolved(mark)
        else:
            yield _unreached(name, scopes.get(scope) or _why(scope), _made_by_a_line(name, scope))


def _around_solutions(gradients: Sequence[CustomGradient]) -> set[str]:
    """The functions that were met, and their rules: a solution that is asked for in one of these is judged there."""
    functions = {
        (g.place.definition or g.place.qualname).rpartition(".<locals>.") for g in gradients
    }
    met = {
        before if name in SOLUTIONS else f"{before}.{name}".strip(".")
        for before, _, name in functions
    }
    met |= {code.__qualname__ for g in gradients for code in g.rule_code()}
    return {spoken(name) for name in met}


def _made_by_a_line(name: str, scope: str) -> str:
    """What would show one that a function makes."""
    return _MADE.format(name) if scope and name.isidentifier() else ""


def _unreached(name: str, reason: str, add: str = "") -> Unreached:
    return Unreached(not_covered=NotCovered.whole(name, reason, add or None))


def _unsolved(mark: Mark) -> Unreached:
    """A function with an implicit derivative that nothing of the module leads to."""
    reason = f"it calls `{mark.name}` (line {mark.line}), and what it is made by could not be called with guesses"
    function = (mark.scope or "").rpartition(".")[2]
    add = _MADE.format(function)
    return Unreached(not_covered=NotCovered.whole(mark.scope or mark.name, reason, add))


def _why(scope: str) -> str:
    if scope:
        return (
            f"it is made inside `{scope}`, and calling that with guessed arguments did not make it"
        )
    return "the source defines it, but the import did not make it"


def without_gpu(gradients: Sequence[CustomGradient], framework: Framework) -> Iterator[Unreached]:
    """Gradients that were to run on a GPU where there is none: floats of a CPU say nothing of it."""
    reason = f"`--device gpu`, and {framework.name} {framework.version} finds no GPU here"
    for gradient in gradients:
        yield Unreached(not_covered=NotCovered.whole(gradient.place.qualname, reason))
