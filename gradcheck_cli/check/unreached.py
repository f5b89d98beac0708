"""Custom gradients that the source defines and the run did not meet, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.report import NotCovered
from gradcheck_cli.contract.worker import Mark, Unreached
from gradcheck_cli.subject.protocol import CustomGradient, Framework
from gradcheck_cli.subject.results import Missing


def unreached(
    marks: Sequence[Mark], gradients: Sequence[CustomGradient], missing: Sequence[Missing]
) -> Iterator[Unreached]:
    """Marks without a gradient; what is `missing` has its reason with it."""
    scopes = {item.place.qualname: item.reason for item in missing if item.is_scope}
    for item in missing:
        if not item.is_scope:
            yield _unreached(item.place.qualname, item.reason, item.add)
    met = {(g.place.definition or g.place.qualname).replace(".<locals>", "") for g in gradients}
    met |= {item.place.qualname.replace(".<locals>", "") for item in missing}
    names = [mark.name for mark in marks]
    made = {g.place.made for g in gradients}
    for mark in (m for m in marks if m.line not in made):
        name, scope = mark.name, mark.scope or ""
        single = names.count(name) == 1 and any(q.rpartition(".")[2] == name for q in met)
        if not (single or mark.is_anonymous or f"{scope}.{name}".strip(".") in met):
            yield _unreached(name, scopes.get(scope) or _why(scope))


def _unreached(name: str, reason: str, add: str = "") -> Unreached:
    if not add and name.isidentifier():
        add = f"a line at module level that makes it, such as `{name} = …`"
    return Unreached(not_covered=NotCovered.whole(name, reason, add or None))


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
