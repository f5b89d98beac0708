"""All JAX custom gradients of one module: recorded ones, attributes, methods, nested ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from gradcheck_cli.discover.factories import attributes, enter_all
from gradcheck_cli.discover.makers import Maker, instance_of
from gradcheck_cli.discover.methods import attribute
from gradcheck_cli.discover.outer import MAKES_WEIGHTS, Outer, outer_functions, plain, with_wholes
from gradcheck_cli.discover.same_definition import distinct
from gradcheck_cli.frameworks.jax.adopt import (
    adopt,
    adopt_function,
    kind_of,
    rule_is_missing,
    unwrapped,
)
from gradcheck_cli.frameworks.jax.gradient import JaxGradient
from gradcheck_cli.frameworks.jax.hooks import recording
from gradcheck_cli.frameworks.shared.made_anew import Anew, recorded_again, settings_of
from gradcheck_cli.frameworks.shared.stand_in_function import stand_in_function
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.results import Found, Missing, Place

_STAND_IN = stand_in_function(jnp.tanh, jnp.mean)  # for what a factory takes


def find(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
) -> tuple[list[JaxGradient], list[Missing]]:
    """The module's own custom gradients, in the order of their lines."""
    _adopt_attributes(module, path, recorded)
    made = {each.line for each in recorded if _same(path, each.path)}
    outer = outer_functions(module, scopes, [_STAND_IN])
    factories = [scope for scope in scopes if scope not in outer]
    missing = enter_all(module, path, factories, [_STAND_IN], recorded, made).missing
    adopted: list[tuple[object, JaxGradient]] = []
    for each in recorded:
        if each.thing is None:
            continue
        gradient = adopt(each, own)
        if gradient is None or not _same(path, each.path, gradient.place.path):
            continue
        if rule_is_missing(each.thing):
            missing.append(_without_rule(each.thing, gradient.place))
            continue
        adopted.append((each.thing, _made_anew(each, _bound(module, gradient), own)))
    gradients, more = distinct(adopted, module, unwrapped)
    every = _unruled([each for of_scope in outer.values() for each in of_scope], gradients)
    wholes = [_whole(each, own) for each in every]
    return with_wholes(gradients, wholes, every), [*missing, *more]


def _unruled(outer: Sequence[Outer], gradients: Sequence[JaxGradient]) -> list[Outer]:
    """Each once, without what has a rule of its own, or is one: a forward rule that asks for a solution, say."""
    written: list[Any] = [f for g in gradients for f in (*g.written, g.primal)]
    rules = {plain(function) for function in written}
    each = {one.qualname: one for one in outer if plain(one.function) not in rules}
    return list(each.values())


def _without_rule(thing: object, place: Place) -> Missing:
    """A decorated function whose rule was forgotten, with the line that defines one."""
    name = place.qualname
    line = f"{name}.defvjp({name}_fwd, {name}_bwd)"
    if isinstance(thing, jax.custom_jvp):
        line = f"{name}.defjvp({name}_jvp)"
    return Missing(
        place, "no derivative rule was ever defined for it", add=f"`{line}` below its definition"
    )


def _whole(outer: Outer, own: Own) -> JaxGradient:
    """A function that calls a custom gradient of its own, as one gradient."""
    names = list(inspect.signature(outer.function).parameters)
    closed_over = frozenset(i for i, n in enumerate(names) if n not in outer.through)
    gradient = replace(
        adopt_function(outer.function, outer.name, outer.place, own),
        nondiff=closed_over,
        makes_weights=outer.name == MAKES_WEIGHTS,
    )
    origin, settings = outer.origin, settings_of(outer.origin, plain(outer.function), names)
    if origin is None or not settings:
        return gradient

    def make(changed: Mapping[str, object]) -> JaxGradient:
        return adopt_function(origin.function(changed), outer.name, outer.place, own)

    learned = frozenset(
        n for n in outer.attributes if type(getattr(settings.get(n), "value", 0)) is float
    )
    anew = Anew(settings, make, ("primal", "rule"), ("written",), learned=learned)
    return anew.dressed(replace(gradient, anew=anew), gradient)


def _made_anew(each: Found, gradient: JaxGradient, own: Own) -> JaxGradient:
    """The gradient with the settings of what made it among its arguments."""
    maker = each.extra.get("maker")
    names = [parameter.name for parameter in gradient.parameters()]
    code = next(iter(gradient.rule_code()), None)
    settings = settings_of(maker, code, names) if isinstance(maker, Maker) else {}
    if not isinstance(maker, Maker) or not settings or gradient.bound:
        return gradient
    make = recorded_again(maker, gradient, recording, functools.partial(adopt, own=own))
    anew = Anew(settings, make, ("primal", "rule"), ("written",))
    return anew.dressed(replace(gradient, anew=anew), gradient)


def named(module: ModuleType, name: str, path: str, own: Own) -> JaxGradient | None:
    """One function by name: its custom gradient, or the plain function itself."""
    thing = attribute(module, name)
    if thing is None or not callable(thing) or inspect.isclass(thing):
        return None
    inner = unwrapped(thing)
    # A partial has arguments of its own: as a function, with the rule inside.
    if not isinstance(thing, functools.partial) and kind_of(inner) is not None:
        recorded = Found(inner, kind_of(inner) or "", path, 1)
        gradient = adopt(recorded, own)
        return None if gradient is None else replace(gradient, name=name.rpartition(".")[2])
    function: Any = getattr(inner, "fun", inner)
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = Place(code.co_filename if code else path, code.co_firstlineno if code else 1, name)
    return adopt_function(thing, name.rpartition(".")[2], place, own)


def _adopt_attributes(module: ModuleType, path: str, recorded: list[Found]) -> None:
    """Custom gradients that were made before the hooks stood (installed modules)."""
    listed = {id(each.thing) for each in recorded}
    for name, value in attributes(module):
        inner = unwrapped(value)
        kind = kind_of(inner)
        if kind is not None and id(inner) not in listed:
            listed.add(id(inner))
            recorded.append(Found(inner, kind, "", 1, {"attribute": name}))


def _same(path: str, *others: str) -> bool:
    here = Path(path)
    return any(other == path or (other and Path(other).resolve() == here) for other in others)


def _bound(module: ModuleType, gradient: JaxGradient) -> JaxGradient:
    """A method gets an instance for `self`, if its class can be made."""
    owner, _, _ = gradient.place.qualname.rpartition(".")
    if not owner or "<locals>" in gradient.place.qualname:
        return gradient
    cls: Any = module
    for part in owner.split("."):
        cls = getattr(cls, part, None)
    parameters = list(gradient.parameters())
    if not inspect.isclass(cls) or not parameters or parameters[0].name not in ("self", "cls"):
        return gradient
    instance = cls if parameters[0].name == "cls" else instance_of(cls)
    return gradient if instance is None else replace(gradient, bound=(instance,))
