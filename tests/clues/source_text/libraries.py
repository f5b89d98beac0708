"""Libraries as source text refers to them: nothing in them is ever called."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradcheck_cli.clues.body import clues
from gradcheck_cli.inputs.clue import Clue
from tests.infer.fitted import parameters_of

jnp, lax, jax, nn = (ModuleType(n) for n in ("jax.numpy", "jax.lax", "jax", "jax.nn"))
torch, F = ModuleType("torch"), ModuleType("torch.nn.functional")
tf, keras, einops = ModuleType("tensorflow"), ModuleType("keras"), ModuleType("einops")


def read(function: Callable[..., Any], *rule: Callable[..., Any]) -> dict[str, Clue]:
    """The clues for all parameters but `ctx`."""
    return clues(function, [p for p in parameters_of(function) if p.name != "ctx"], rule)


def fields(function: Callable[..., Any], field: str) -> dict[str, Any]:
    """One field of every clue that has it."""
    found = {name: getattr(clue, field) for name, clue in read(function).items()}
    return {name: value for name, value in found.items() if value}


def specs(function: Callable[..., Any]) -> dict[str, str]:
    return fields(function, "spec")


def least_ranks(function: Callable[..., Any]) -> dict[str, int]:
    return fields(function, "least_rank")


def ranks(function: Callable[..., Any]) -> dict[str, int]:
    return fields(function, "rank")


def kinds(function: Callable[..., Any]) -> dict[str, str]:
    """The kind of every parameter that is no plain array of floats."""
    names = {name: clue.kind.name for name, clue in read(function).items()}
    return {name: kind for name, kind in names.items() if kind not in ("ARRAY", "NOTHING")}


def values(function: Callable[..., Any]) -> dict[str, tuple[object, ...]]:
    return fields(function, "values")
