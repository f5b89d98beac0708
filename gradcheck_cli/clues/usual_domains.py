"""Where numbers live by the names that the field gives them: a width is positive, a logarithm is no thousand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from gradcheck_cli.inputs.clue import Clue

_PLURAL = r"s?\d?"
_NO_OTHER = (
    r"(?!(?:log|ln|delta|d|diff|rel|inv)_)"  # a logarithm or a difference of it is another thing
)
_POSITIVE = re.compile(
    rf"{_NO_OTHER}(?:\w+_)?(?:sigma|std|std_?dev|variance|length_?scale|bandwidth|(?:band)?width|radius|radii|cut_?off|r_?cut|r_?max"
    rf"|attack|release|half_?life|life_?time|time_?constant|(?:rise|fall)_time|kappa|concentration|temperature|mass(?:es)?|box|box_size|cell_size|period|dof"
    rf"|[a-z]+_?50|spot|strike|vol|volatility|maturity|expiry|viscosity|diffusivity|conductivity|conductance|permeability|resistance|resistivity|capacitance|inductance|density|diameter|wavelength"
    rf"|freq(?:uency)?|(?:line_?)?broadening|line_?width|clearance|tenor|waist|thickness(?:es)?|q_?10|aperture|focal_length|capacity|stiffness|jitter|nugget|damping|samp(?:le|ling)_?rate){_PLURAL}"
)
_NOT_NEGATIVE = re.compile(
    rf"{_NO_OTHER}(?:\w+_)?(?:dist(?:ance)?|area|duration|volume|exposure|age|arc_?length|depth|rain(?:fall)?|precip(?:itation)?|biomass|abundance|headway|travel_time|times|free_(?:flow_)?time)s?\d?"
)
# What these are called in a density, and many other things elsewhere.
_POSITIVE_IN_DENSITIES = re.compile(
    rf"(?:alpha|beta|scale|rate|lam|lambda_?|nu|df|tau|precision|var|shape|kappa|concentration|dof|sigma|std){_PLURAL}"
)
_DENSITY = re.compile(r"log_?(?:pdf|pmf|prob|lik|cdf)|(?:^|_)(?:pdf|pmf|cdf|nll|density|likelihood|entropy)(?:$|_)")  # fmt: skip
# What a quantizer divides by: the width of a step.
_QUANTIZER = re.compile(
    r"[Qq]uant|[Ll][Ss][Qq]|(?:^|_)qat|(?:^|_)ste(?:$|_)|fake_?q|learned_step|round|STE\b|Ste\b"
)
_WIDTH = re.compile(rf"(?:\w+_)?(?:scale|step|delta|alpha){_PLURAL}|s")
# Inverses of distribution functions, and samples that are made with them.
_INVERSE = re.compile(
    r"from_?uniform|icdf|(?:^|_)ppf|inverse_?cdf|percent_?point|(?:^|_)quantile_?f"
)
_SHARES = re.compile(r"u\d?|us|uniforms?|unif|quantiles?|probs?|p|q")
_POSITIVE_IN_SAMPLES = re.compile(rf"(?:scale|rate|sigma|std|concentration|dof|df){_PLURAL}")
_INVERTED = re.compile(f"{_SHARES.pattern}|{_POSITIVE_IN_SAMPLES.pattern}")
_LOGARITHM = re.compile(
    r"(?:\w+_)?log_?(?:scale|std|sigma|var|variance|length_?scale|band(?:width)?|temperature|rate|alpha|beta|amplitude|noise|sd|precision|period|mass|width|radius|gain|decay"
    r"|shape|temp|t|tau|lam(?:bda)?|kappa|nu|ls|amp|diag(?:onal)?|diffusivity|viscosity|ratio|rho|step|step_?size|dt|conc(?:entration)?|depth|slope|freq(?:uency)?|volume|density|reach|dose|size|speed|clearance|v_?max|[ei]c_?50|k_?m"
    r"|sharpness|stiffness|hardness|roughness|strength|spread|dispersion|curvature|thickness|resistivity|conductance|conductivity|capacity|length|height|distance|area"
    r"|duration|age|price|titre|tokens|heat|drag|momentum|force|power|energy|pressure|intensity|luminosity|brightness|modulus|exposure|gamma|zeta|prec)s?"
)
_DECIBELS = re.compile(r"(?:\w+_)?(?:db|dbm|dbfs|dbu|decibels?)")
_LOGARITHM_OF_A_LETTER = re.compile(r"log_[ack]\d?")  # `log_A` has a model's probabilities
# What such numbers are in models; a source that says `> 0` is believed to the last float.
_OF_SHARES = "in (0, 1)"
_OF_DENSITIES, _OF_WIDTHS = "in [1e-3, 1e4]", "in [1e-6, 1e6]"
_STEP = re.compile(r"dt|delta_?t|time_?step|step_?size|learning_?rate|lr")


_LAST = re.compile(r"(?P<own>\w+)['\"]?\]?$")  # of `params['log_scale']`, of `state.mass`


_CALLS = ("forward", "__call__", "call", "apply")  # of classes whose own names say more


def named(function: Callable[..., Any]) -> str:
    """What says what a function is: its name, or the name of the class that it is the call of."""
    name, whole = (str(getattr(function, a, "")) for a in ("__name__", "__qualname__"))
    return whole.rpartition(".")[0].rpartition(".")[2] or name if name in _CALLS else name


def clues(function: str, paths: Iterable[str]) -> dict[str, Clue]:
    """What the names of a function, of its parameters and of what these hold suggest; every other source is stronger."""
    of_density = _DENSITY.search(function.lower()) is not None
    inverts = _INVERSE.search(function.lower()) is not None
    quantizes = _QUANTIZER.search(function) is not None
    own = {path: name["own"] for path in paths if (name := _LAST.search(path)) is not None}
    found = {
        path: _of_inverse(name)
        if inverts and _INVERTED.fullmatch(name)
        else _clue(name, of_density, quantizes)
        for path, name in own.items()
    }
    return {path: clue for path, clue in found.items() if clue is not None}


def _of_inverse(name: str) -> Clue:
    """What an inverse of a distribution function takes: shares, and the distribution's own widths."""
    shares = _SHARES.fullmatch(name) is not None
    return Clue(f"the name `{name}`", domain=_OF_SHARES if shares else _OF_DENSITIES)


def _clue(name: str, of_density: bool, quantizes: bool) -> Clue | None:
    lowered, source = name.lower(), f"the name `{name}`"
    if _STEP.fullmatch(lowered):
        return Clue(source, spec="f32[]", domain=_OF_WIDTHS)
    if _LOGARITHM.fullmatch(lowered) or _LOGARITHM_OF_A_LETTER.fullmatch(name):
        return Clue(source, domain="in [-20, 20]")
    if _DECIBELS.fullmatch(lowered):
        return Clue(source, domain="in [-200, 200]")
    if of_density and _POSITIVE_IN_DENSITIES.fullmatch(lowered):
        return Clue(source, domain=_OF_DENSITIES)
    if _POSITIVE.fullmatch(lowered) or (quantizes and _WIDTH.fullmatch(lowered)):
        return Clue(source, domain=_OF_WIDTHS)
    if _NOT_NEGATIVE.fullmatch(lowered):
        return Clue(source, domain="in [0, 1e6]")
    return None
