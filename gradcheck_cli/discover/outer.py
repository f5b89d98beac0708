"""Functions that define a custom gradient and call it themselves: what users call is the outer function.

So is one that asks for a solution with an implicit derivative, itself or in what it defines.

It may stand in the module, be a method of an object, or be what a factory gives back.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any, TypeGuard, TypeVar

from gradcheck_cli.discover.factories import attributes, invented
from gradcheck_cli.discover.makers import Call, Setting, calls_of, construction
from gradcheck_cli.discover.needs import Need, needs
from gradcheck_cli.project.framework_marks import SOLUTIONS
from gradcheck_cli.subject.results import Place
from gradcheck_cli.subject.user_code import UserCodeError

G = TypeVar("G", bound=Any)
Function = Callable[..., Any]

_DECORATES = ("custom_gradient", "custom_vjp", "custom_jvp")
# The method of a layer that runs after it was built, as Keras has it.
MAKES_WEIGHTS = "call"


@dataclass(frozen=True, slots=True)
class Origin:
    """The call that gave the outer function, and how what it gave leads there."""

    call: Call
    leads: Callable[[Callable[[], Any]], Function]

    @property
    def settings(self) -> dict[str, Setting]:
        return self.call.settings

    def function(self, changed: Mapping[str, object]) -> Function:
        """The outer function as it is with other settings."""
        return self.leads(functools.partial(self.call.again, changed))


@dataclass(frozen=True, slots=True)
class Outer:
    """A function that calls a custom gradient of its own, `inner`; `through` are the parameters that it hands to it.

    What else the inner function reads, it closes over: that cannot be differentiated, but through a solution.
    """

    function: Function
    qualname: str
    inner: str
    through: frozenset[str]
    attributes: frozenset[str] = frozenset()  # of its object, that it hands to it
    origin: Origin | None = None
    invented: str = ""

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]

    @property
    def defined(self) -> str:
        """The name by which its definition goes, whatever the module calls it."""
        qualname: str = plain(self.function).__qualname__
        return qualname

    @property
    def place(self) -> Place:
        """Where the function stands; what is defined in it goes by its name."""
        code = plain(self.function).__code__
        definition = f"{self.defined}.<locals>.{self.inner}"
        return Place(
            code.co_filename, code.co_firstlineno, self.qualname, definition=definition,
            invented=self.invented,
        )  # fmt: skip


def plain(function: Function) -> Any:
    """The function as it is defined, under what binds or wraps it."""
    inner = inspect.unwrap(function)
    return getattr(inner, "__func__", inner)


def outer_functions(
    module: ModuleType, scopes: Sequence[str], functions: Sequence[Function] = ()
) -> dict[str, list[Outer]]:
    """Of these scopes those that call what they define, each with the functions that do.

    `functions` are the framework's own, for a factory that asks for one.
    """
    found = {scope: list(_of_scope(module, scope, functions)) for scope in dict.fromkeys(scopes)}
    return {scope: outer for scope, outer in found.items() if outer}


def _of_scope(module: ModuleType, scope: str, functions: Sequence[Function]) -> Iterator[Outer]:
    owner, _, name = scope.rpartition(".")
    first, _, deeper = scope.partition(".")
    thing = getattr(module, owner or name, None)
    outer: list[Outer | None] = []
    if not owner and _is_function(thing):
        outer = [_outer(thing, name)]
    elif owner and inspect.isclass(thing):
        outer = [_of_object(module, thing, name)]
    elif owner and _is_function(thing):
        outer = list(_of_factory(module, thing, name, functions))
    if deeper and not any(outer) and _is_function(getattr(module, first, None)):
        outer = [_around_solution(getattr(module, first), first)]
    yield from (each for each in outer if each is not None)


def _is_function(thing: object) -> TypeGuard[Function]:
    """Was it written as a function, whatever wraps it now?"""
    return callable(thing) and isinstance(plain(thing), FunctionType)


def _around_solution(function: Function, qualname: str) -> Outer | None:
    """The function if something that it defines asks for a solution."""
    node = _tree(function)
    if node is None or not (solutions := _solutions(ast.walk(node))):
        return None
    return Outer(function, qualname, solutions[0][1], frozenset(_parameters(node)))


def with_wholes(gradients: Sequence[G], wholes: Sequence[G], outer: Iterable[Outer]) -> list[G]:
    """The gradients in the order of their lines: those of outer functions for what is defined in these."""
    inside = tuple(f"{each.defined}.<locals>." for each in outer)
    others = [g for g in gradients if not g.place.qualname.startswith(inside)]
    return sorted([*others, *wholes], key=lambda g: (g.place.line, g.place.qualname))


def _of_object(module: ModuleType, cls: Any, name: str) -> Outer | None:
    """A method of an object that the module holds, or of one that can be made."""
    method = inspect.getattr_static(cls, name, None)
    if not inspect.isfunction(method) or _outer(method, "") is None:
        return None
    leads = functools.partial(_method, name=name)
    held = next((value for _, value in attributes(module) if type(value) is cls), None)
    made = None if held is not None else construction(cls)
    if held is None and made is None:
        return None
    again = (lambda: held) if made is None else functools.partial(made.call.again, {})
    outer = _outer(leads(again), f"{cls.__qualname__}.{name}")
    if outer is None or made is None:
        return outer
    return replace(outer, origin=Origin(made.call, leads))


def _method(make: Callable[[], Any], name: str) -> Function:
    """The method of an object; of a layer, the layer itself, which makes its weights at its first call.

    They are of the size that it is called with then: for other sizes it is another layer.
    """
    instance = make()
    method: Function = getattr(instance, name)
    if name != MAKES_WEIGHTS or not callable(instance):
        return method
    layers: dict[str, Any] = {}

    @functools.wraps(method)
    def layer(*args: Any, **keywords: Any) -> Any:
        given = (*args, *keywords.values())
        key = repr([tuple(getattr(value, "shape", ())) for value in given])
        if key not in layers:
            layers[key] = make()
        return layers[key](*args, **keywords)

    return layer


def _of_factory(
    module: ModuleType, factory: Function, name: str, functions: Sequence[Function]
) -> Iterator[Outer | None]:
    """What a factory gives back: as the module holds it, or else from a call of ours."""
    qualname = f"{factory.__qualname__}.<locals>.{name}"
    held = [(n, v) for n, v in attributes(module) if getattr(v, "__qualname__", "") == qualname]
    if held:
        yield from (_outer(value, name) for name, value in held if callable(value))
    elif _hands_out(factory, name) and Need.RULE not in needs(factory).values():
        yield _from_call(factory, qualname, functions)


def _from_call(factory: Function, qualname: str, functions: Sequence[Function]) -> Outer | None:
    leads = functools.partial(_given, qualname=qualname)
    for call in calls_of(factory, functions):
        with contextlib.suppress(UserCodeError, LookupError):
            outer = _outer(leads(functools.partial(call.again, {})), qualname)
            if outer is not None:
                made_up = invented(call, functions)
                return replace(outer, origin=Origin(call, leads), invented=made_up)
    return None


def _given(make: Callable[[], Any], qualname: str) -> Function:
    """The function of this name among what a factory gives."""
    result = make()
    several = result if isinstance(result, (tuple, list)) else [result]
    fitting = [f for f in several if getattr(f, "__qualname__", "") == qualname]
    function: Function = fitting[0]
    return function


def _hands_out(factory: Function, name: str) -> bool:
    """Does the factory define a function of this name that calls a custom gradient of its own?"""
    tree = _tree(factory)
    inside = [] if tree is None else [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    return any(node.name == name and _called_inside(node) for node in inside)


def _tree(function: Function) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = tree.body[0] if tree.body else None
    return node if isinstance(node, ast.FunctionDef) else None


def _outer(function: Function, qualname: str) -> Outer | None:
    if not isinstance(plain(function), FunctionType):
        return None
    node = _tree(function)
    own = [] if node is None else _called_inside(node)
    if node is None or not own:
        return None
    through = frozenset(_parameters(node))
    if not _solutions(_of_its_own(node)):
        handed = {n for call, _ in own for argument in call.args for n in _names(argument)}
        through &= frozenset(_sources(node, handed))
    given = [argument for call, _ in own for argument in call.args]
    attributes = frozenset(a for each in _made_of(node, given) for a in _attributes(each))
    return Outer(function, qualname, own[0][1], through, attributes)


def _attributes(node: ast.expr) -> Iterator[str]:
    """The attributes of its object that an argument is made of: `self.rate`, `jnp.asarray(self.rate)`."""
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield name


def _called_inside(node: ast.FunctionDef) -> list[tuple[ast.Call, str]]:
    """The calls of custom gradients that a function defines itself, and of solutions, each with the name."""
    inner = {
        part.name
        for part in node.body
        if isinstance(part, ast.FunctionDef) and any(map(_is_custom, part.decorator_list))
    }
    calls = [part for part in _of_its_own(node) if isinstance(part, ast.Call)]
    own = [(c, c.func.id) for c in calls if isinstance(c.func, ast.Name) and c.func.id in inner]
    return [*own, *_solutions(calls)]


def _solutions(nodes: Iterable[ast.AST]) -> list[tuple[ast.Call, str]]:
    """The calls that ask for a solution with an implicit derivative, each with the name."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    named = [(c, ast.unparse(c.func).rpartition(".")[2]) for c in calls]
    return [(call, name) for call, name in named if name in SOLUTIONS]


def _parameters(node: ast.FunctionDef) -> list[str]:
    given = node.args
    many = [given.vararg] if given.vararg else []
    return [a.arg for a in (*given.posonlyargs, *given.args, *many, *given.kwonlyargs)]


def _sources(node: ast.FunctionDef, handed: set[str]) -> set[str]:
    """The names that these are made of, by the function's own assignments."""
    found = set(handed)
    for part in _assignments(node):
        if found & {n for target in part.targets for n in _names(target)}:
            found |= set(_names(part.value))
    return found


def _made_of(node: ast.FunctionDef, given: Sequence[ast.expr]) -> list[ast.expr]:
    """These expressions, and those that the names in them are assigned before."""
    found = list(given)
    for part in _assignments(node):
        named = {n for each in found for n in _names(each)}
        if named & {n for target in part.targets for n in _names(target)}:
            found.append(part.value)
    return found


def _assignments(node: ast.FunctionDef) -> list[ast.Assign]:
    """What the function itself assigns, the last first."""
    own = [part for part in _of_its_own(node) if isinstance(part, ast.Assign)]
    return own[::-1]


def _names(node: ast.AST) -> Iterator[str]:
    """Names that are read for their values: `x` of `x.reshape(n, -1)`, not of `x.shape`."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype", "size"):
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def _is_custom(decorator: ast.expr) -> bool:
    return any(name in ast.unparse(decorator) for name in _DECORATES)


def _of_its_own(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, but not in the functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _of_its_own(child)
