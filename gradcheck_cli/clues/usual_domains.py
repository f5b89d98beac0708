"""Where numbers live by the names that the field gives them: a width is positive, a logarithm is no thousand."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradcheck_cli.inputs.clue import Clue

_PLURAL = r"s?\d?"
_POSITIVE = re.compile(
    r"(?:\w+_)?(?:sigma|std|std_?dev|variance|length_?scale|bandwidth|(?:band)?width|radius|radii|cut_?off|r_?cut|r_?max"
    rf"|kappa|concentration|temperature|mass(?:es)?|box|box_size|cell_size|period|dof"
    rf"|spot|strike|vol|volatility|maturity|expiry|viscosity|diffusivity|conductivity|stiffness){_PLURAL}"
)
_NOT_NEGATIVE = re.compile(
    r"(?:\w+_)?(?:dist(?:ance)?|area|duration|volume|exposure|age|arc_?length)s?\d?"
)
# What these are called in a density, and many other things elsewhere.
_POSITIVE_IN_DENSITIES = re.compile(
    rf"(?:alpha|beta|scale|rate|lam|lambda_?|nu|df|tau|precision|var|shape|kappa|concentration|dof|sigma|std){_PLURAL}"
)
_DENSITY = re.compile(r"log_?(?:pdf|pmf|prob|lik|cdf)|(?:^|_)(?:pdf|pmf|cdf|nll|density|likelihood|entropy)(?:$|_)")  # fmt: skip
_LOGARITHM = re.compile(
    r"(?:\w+_)?log_?(?:scale|std|sigma|var|variance|length_?scale|bandwidth|temperature|rate|alpha|beta|amplitude|noise|sd|precision|period|mass|width|radius|gain|decay"
    r"|shape|temp|t|tau|lam(?:bda)?|kappa|nu|ls|amp|diag(?:onal)?|diffusivity|viscosity|ratio|rho|step|step_?size|dt|conc(?:entration)?|depth|slope|freq(?:uency)?|volume|density)s?"
)
# What such numbers are in models; a source that says `> 0` is believed to the last float.
_OF_DENSITIES, _OF_WIDTHS = "in [1e-3, 1e4]", "in [1e-6, 1e6]"
_STEP = re.compile(r"dt|delta_?t|time_?step|step_?size|learning_?rate|lr")


_LAST = re.compile(r"(?P<own>\w+)['\"]?\]?$")  # of `params['log_scale']`, of `state.mass`


def clues(function: str, paths: Iterable[str]) -> dict[str, Clue]:
    """What the names of a function, of its parameters and of what these hold suggest; every other source is stronger."""
    of_density = _DENSITY.search(function.lower()) is not None
    own = {path: name["own"] for path in paths if (name := _LAST.search(path)) is not None}
    found = {path: _clue(name, of_density) for path, name in own.items()}
    return {path: clue for path, clue in found.items() if clue is not None}


def _clue(name: str, of_density: bool) -> Clue | None:
    lowered, source = name.lower(), f"the name `{name}`"
    if _STEP.fullmatch(lowered):
        return Clue(source, spec="f32[]", domain=_OF_WIDTHS)
    if _LOGARITHM.fullmatch(lowered):
        return Clue(source, domain="in [-20, 20]")
    if of_density and _POSITIVE_IN_DENSITIES.fullmatch(lowered):
        return Clue(source, domain=_OF_DENSITIES)
    if _POSITIVE.fullmatch(lowered):
        return Clue(source, domain=_OF_WIDTHS)
    if _NOT_NEGATIVE.fullmatch(lowered):
        return Clue(source, domain="in [0, 1e6]")
    return None
