"""On PyTorch: a function that calls a custom gradient of its own, as one custom gradient."""

from __future__ import annotations

import dataclasses
from typing import Any

from gradcheck_cli.discover.outer import Outer, plain
from gradcheck_cli.frameworks.shared.made_anew import Anew, settings_of
from gradcheck_cli.frameworks.torch.fit import fit
from gradcheck_cli.frameworks.torch.gradient import TorchGradient, of_function


def whole(outer: Outer) -> TorchGradient:
    """A function that calls a custom gradient of its own, as one gradient."""

    def of(function: Any) -> TorchGradient:
        return of_function(function, outer.name, outer.place, fit)

    gradient = of(outer.function)
    names = frozenset(p.name for p in gradient.parameters())
    origin, settings = outer.origin, settings_of(outer.origin, plain(outer.function), names)
    closed_over = names - outer.through | frozenset(settings)
    gradient = dataclasses.replace(gradient, closed_over=closed_over)
    if origin is None or not settings:
        return gradient
    anew = Anew(
        settings, lambda changed: of(origin.function(changed)), ("primal", "rule", "forward")
    )
    return anew.dressed(dataclasses.replace(gradient, anew=anew), gradient)
