"""Stable library functions, spelled as a torch user would write them; each is verified before it is shown."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 (everybody's name for it)

from gradcheck_cli.frameworks.shared.library import Library, Stable
from gradcheck_cli.frameworks.shared.stand_in_function import stand_in_function

STABLE: tuple[Stable, ...] = (
    Stable(F.softplus, "F.softplus({x})", "ct * torch.sigmoid({x})"),
    Stable(lambda x: -F.logsigmoid(-x), "-F.logsigmoid(-{x})", "ct * torch.sigmoid({x})"),
    Stable(torch.sigmoid, "torch.sigmoid({x})", "ct * torch.sigmoid({x}) * torch.sigmoid(-{x})"),
    Stable(F.logsigmoid, "F.logsigmoid({x})", "ct * torch.sigmoid(-{x})"),
    Stable(lambda x: -F.softplus(x), "-F.softplus({x})", "-ct * torch.sigmoid({x})"),
    Stable(lambda x: torch.sigmoid(-x), "torch.sigmoid(-{x})", "-ct * torch.sigmoid({x}) * torch.sigmoid(-{x})"),
    Stable(torch.tanh, "torch.tanh({x})", "ct / torch.cosh({x}) ** 2"),
    Stable(torch.expm1, "torch.expm1({x})", "ct * torch.exp({x})"),
    Stable(torch.log1p, "torch.log1p({x})", "ct / (1 + {x})"),
    Stable(torch.asinh, "torch.asinh({x})", "ct / torch.hypot(torch.ones_like({x}), {x})"),
    Stable(lambda x: torch.logsumexp(x, -1), "torch.logsumexp({x}, -1)", "ct * torch.softmax({x}, -1)", True),
    Stable(lambda x: torch.softmax(x, -1), "torch.softmax({x}, -1)", "torch.softmax({x}, -1) * (ct - (ct * torch.softmax({x}, -1)).sum(-1, keepdim=True))", True),
    Stable(lambda x: torch.log_softmax(x, -1), "torch.log_softmax({x}, -1)", "ct - torch.softmax({x}, -1) * ct.sum(-1, keepdim=True)", True),
    Stable(torch.hypot, "torch.hypot({x})", "ct"),
    Stable(torch.logaddexp, "torch.logaddexp({x})", "ct"),
)  # fmt: skip

STAND_IN = stand_in_function(torch.tanh, torch.mean)  # for what a factory takes

LIBRARY = Library(STABLE, {"torch": torch, "F": F})
