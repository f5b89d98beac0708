"""From an object to a `TfGradient`: a decorated function or method, or a registered gradient."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import tensorflow as tf

from gradcheck_cli.discover.makers import Construction, Maker, construction
from gradcheck_cli.frameworks.shared.made_anew import Anew, recorded_again, settings_of
from gradcheck_cli.frameworks.tensorflow.fit import fit
from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, REGISTERED, TfGradient
from gradcheck_cli.frameworks.tensorflow.hooks import recording, source
from gradcheck_cli.frameworks.tensorflow.private_api import decorated, op_def_registry
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.results import Found, Missing, Place

# Plain attributes of an op, and where their default lies.
_FIELDS = {"bool": "b", "int": "i", "float": "f"}


def adopt(
    module: ModuleType, bind: Any, own: Own, given: Mapping[str, object] | None = None
) -> TfGradient:
    """A decorated function; a method gets an instance of its class, made with what is given."""
    function = decorated(bind)
    path, line = source(function)
    qualname = getattr(function, "__qualname__", "<custom_gradient>")
    rule, body, bound = bind, function, 0
    made = _construction(module, function, qualname)
    instance = None if made is None else made.call.again(given) if given else made.instance
    if instance is not None:
        rule, body, bound = bind.__get__(instance, type(instance)), function.__get__(instance), 1
    return TfGradient(
        name=qualname.rpartition(".")[2], kind=CUSTOM, place=Place(path, line, qualname),
        primal=function, rule=rule, split=body, own=own, fitter=fit, bound=bound,
    )  # fmt: skip


def _construction(module: ModuleType, function: Any, qualname: str) -> Construction | None:
    """How an object of a method's class is made, if it is a method."""
    owner, _, _ = qualname.rpartition(".")
    names = list(inspect.signature(function).parameters) if callable(function) else []
    if not owner or "<locals>" in qualname or names[:1] != ["self"]:
        return None
    cls: Any = module
    for part in owner.split("."):
        cls = getattr(cls, part, None)
    return construction(cls) if inspect.isclass(cls) else None


def made_anew(module: ModuleType, each: Found, gradient: TfGradient, own: Own) -> TfGradient:
    """The gradient with the settings of what made it, or its object, among its arguments."""
    maker = each.extra.get("maker")
    if maker is None and gradient.bound:
        return _of_other_objects(module, each, gradient, own)
    names = [parameter.name for parameter in gradient.parameters()]
    code = next(iter(gradient.rule_code()), None)
    settings = settings_of(maker, code, names) if isinstance(maker, Maker) else {}
    if not isinstance(maker, Maker) or not settings:
        return gradient
    make = recorded_again(maker, gradient, recording, functools.partial(_adopted, module, own))
    anew = Anew(settings, make, ("primal", "rule", "split"))
    return anew.dressed(replace(gradient, anew=anew), gradient)


def _of_other_objects(
    module: ModuleType, each: Found, gradient: TfGradient, own: Own
) -> TfGradient:
    """A method's gradient with the plain arguments of its class among its own."""
    made = _construction(module, gradient.primal, gradient.place.qualname)
    if made is None:
        return gradient
    names = {parameter.name for parameter in gradient.parameters()}
    settings = {name: each for name, each in made.call.settings.items() if name not in names}
    if not settings:
        return gradient
    make = functools.partial(adopt, module, each.thing, own)
    anew = Anew(settings, make, ("primal", "rule", "split"))
    return anew.dressed(replace(gradient, anew=anew), gradient)


def _adopted(module: ModuleType, own: Own, each: Found) -> TfGradient | None:
    return adopt(module, each.thing, own) if each.kind == CUSTOM else None


def registered(recorded: Found, overridden: dict[str, str], own: Own) -> TfGradient | Missing:
    """`tf.RegisterGradient(name)`: of the op that the source maps to this name, or of its own."""
    function: Any = recorded.thing
    name = str(recorded.extra["op"])
    op = overridden.get(name, name)
    place = Place(recorded.path, recorded.line, function.__qualname__)
    definition = op_def_registry.get(op)
    raw = getattr(tf.raw_ops, op, None)
    if definition is None or raw is None:
        return Missing(
            place,
            f"no op has the type `{name}`, and no `gradient_override_map` of this file maps one to it",
        )
    names = _names_of_inputs(definition, raw)

    def call(*inputs: Any, **settings: Any) -> Any:
        return raw(**dict(zip(names, inputs, strict=True)), **settings)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def rule(*inputs: Any, **settings: Any) -> Any:
        with tf.compat.v1.get_default_graph().gradient_override_map({op: name}):
            return call(*inputs, **settings)

    def split(*inputs: Any, **settings: Any) -> tuple[Any, Any]:
        """The op in a graph, and a grad function that sees the op itself."""
        out = call(*inputs, **settings)
        first = tf.nest.flatten(out)[0]
        return out, lambda *cotangents: function(first.op, *cotangents)

    return TfGradient(
        name=function.__name__, kind=REGISTERED, place=place, primal=function, rule=rule,
        split=split, own=own, fitter=fit, parameter_names=names, settings=_settings(definition),
    )  # fmt: skip


def _names_of_inputs(definition: Any, raw: Any) -> tuple[str, ...]:
    """The op's inputs in its own order, by their names in Python: `reduction_indices` is `axis` there."""
    attributes = {attribute.name for attribute in definition.attr}
    python = [p for p in inspect.signature(raw).parameters if p != "name" and p not in attributes]
    given = [arg.name for arg in definition.input_arg]
    others = iter([name for name in python if name not in given])
    return tuple(name if name in python else next(others, name) for name in given)


def _settings(definition: Any) -> dict[str, bool | int | float]:
    """The op's attributes that are flags and numbers, with their defaults."""
    return {
        attribute.name: getattr(attribute.default_value, _FIELDS[attribute.type])
        for attribute in definition.attr
        if attribute.type in _FIELDS and attribute.HasField("default_value")
    }
