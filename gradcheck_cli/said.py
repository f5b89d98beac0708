"""What the user says of one gradient: its inputs, and what its rule is meant to be."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from gradcheck_cli.finding import Site
from gradcheck_cli.frameworks.seam import CustomGradient
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.language import condition
from gradcheck_cli.inputs.language import parse as parse_spec
from gradcheck_cli.inputs.spec import Hints
from gradcheck_cli.intentions import parse as parse_intents
from gradcheck_cli.intents.declared import Declarations
from gradcheck_cli.notebook import Notebook
from gradcheck_cli.rulebook import find
from gradcheck_cli.words import Severity, Task


def with_specs(
    hints: Hints, gradient: CustomGradient, task: Task, site: Site, book: Notebook
) -> Hints:
    """What the user says of the arguments: in a comment on the definition, or in the settings."""
    places = _places(gradient, site)
    declared = book.declared.intents if book.declared is not None else []
    for name, bounds in (condition(d.argument or "") for d in declared if d.name == "domain"):
        hints.domains[name] = Domain(bounds)
    key = next((k for k in places if k in task.inputs), None)
    if key is None:
        return hints
    specs = parse_spec(task.inputs[key])
    known = [p.name for p in gradient.parameters()]
    unknown = [name for name in specs if name not in known]
    if unknown:
        rule = find("unknown-argument")
        message = f"the inputs speak of `{unknown[0]}`; it takes {', '.join(known)}"
        finding = rule.finding(site.path, site.line, message, about=gradient.place.qualname)
        book.findings.append(replace(finding, severity=Severity.WARNING, gradient=site.qualname))
    return dataclasses.replace(hints, specs=specs, spec_source=places[key])


def _places(gradient: CustomGradient, site: Site) -> dict[str, str]:
    """By what something may be said of this gradient: a line of its definition, or its name."""
    lines = range(gradient.place.line, max(site.line, site.header_end) + 1)
    return {str(n): f"the comment for line {n}" for n in lines} | dict.fromkeys(
        (gradient.place.qualname, gradient.name), "the settings"
    )


def declarations(gradient: CustomGradient, task: Task, site: Site) -> Declarations:
    said = [task.expects[k] for k in _places(gradient, site) if k in task.expects]
    return Declarations([declared for text in said for declared in parse_intents(text)])
