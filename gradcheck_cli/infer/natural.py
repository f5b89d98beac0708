"""A subject again with its quantities at the numbers that these have by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.quantities import Quantity
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError


def natural(
    gradient: CustomGradient, subject: Subject, quantities: Mapping[str, Quantity]
) -> Subject | None:
    """The subject with these arguments within what they are; None if it cannot be called so."""

    def change(part: Any) -> Any:
        if not isinstance(part, Leaf) or part.path not in quantities:
            return part
        above = part.domain.above if part.domain is not None else ()
        bounds = quantities[part.path].bounds
        return replace(part, domain=Domain(bounds, f"the name `{part.path}`", above))

    try:
        return fitted(gradient, subject.signature.changed(change), subject.dtype)
    except (Rejected, RuleError, UserCodeError):
        return None
