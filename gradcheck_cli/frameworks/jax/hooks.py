"""Import hooks: record every custom gradient at the moment it is made, wherever that is."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from gradcheck_cli.subject.protocol import Note
from gradcheck_cli.subject.results import Found

_HERE = f"{Path(__file__).parent}/"
_JAX = f"{Path(jax.__file__).parent}/"  # not jaxopt
_PASS_THROUGH = (_HERE, _JAX, "functools.py", "<string>")
# Where libraries wrap JAX's; rules of their own stand elsewhere in them.
_WRAPPER_CODE = (
    "equinox/_", "flax/core/lift.py", "flax/linen/transforms.py", "flax/nnx/transforms/",
    "keras/src/ops/", "keras/src/backend/",
)  # fmt: skip


@contextmanager
def recording() -> Iterator[list[Found]]:
    """While active, made custom gradients are appended to the list."""
    objects: list[Found] = []
    undo: list[Callable[[], None]] = []
    for cls, kind in ((jax.custom_vjp, "custom_vjp"), (jax.custom_jvp, "custom_jvp")):
        undo.append(_patch_init(cls, kind, objects))
    undo.append(_patch_custom_gradient(objects))
    finder = _WrapperFinder(objects, undo)
    sys.meta_path.insert(0, finder)
    finder.patch_loaded()
    try:
        yield objects
    finally:
        sys.meta_path.remove(finder)
        for step in reversed(undo):
            step()


def _patch_init(cls: Any, kind: str, objects: list[Found]) -> Callable[[], None]:
    original = cls.__init__

    def recorded(self: Any, *args: Any, **kwargs: Any) -> None:
        before = len(objects)
        original(self, *args, **kwargs)
        del objects[before:]  # a wrapper's inner rule is the wrapper's
        place = _maker()
        if place is not None and not _sign(getattr(self, "fun", None), place):
            objects.append(Found(self, kind, *place))

    cls.__init__ = recorded

    def undo() -> None:
        cls.__init__ = original

    return undo


@contextmanager
def watching(note: Note) -> Iterator[None]:
    """While active, every call of a custom gradient is noted."""
    originals = [(cls, cls.__call__) for cls in (jax.custom_vjp, jax.custom_jvp)]

    def watched(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            note(self, args, kwargs)
            return original(self, *args, **kwargs)

        return call

    for cls, original in originals:
        cls.__call__ = watched(original)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for cls, original in originals:
            cls.__call__ = original  # type: ignore[method-assign]


def _patch_custom_gradient(objects: list[Found]) -> Callable[[], None]:
    import jax.custom_derivatives as derivatives

    original = jax.custom_gradient
    plain: Any = original

    def custom_gradient(fun: Any) -> Any:
        before = len(objects)
        rule = plain(fun)
        del objects[before:]  # the custom_vjp inside
        label(rule)
        place = _maker()
        if place is not None:
            objects.append(Found(rule, "custom_gradient", *place))
        return rule

    custom_gradient.__doc__ = original.__doc__
    jax.custom_gradient = derivatives.custom_gradient = custom_gradient

    def undo() -> None:
        jax.custom_gradient = derivatives.custom_gradient = original

    return undo


def is_custom_gradient(thing: Any) -> bool:
    """Made by `jax.custom_gradient`: a custom_vjp around JAX's own closure."""
    code = getattr(getattr(thing, "fun", None), "__code__", None)
    return (
        isinstance(thing, jax.custom_vjp)
        and code is not None
        and code.co_name == "wrapped_fun"
        and "fun" in code.co_freevars
    )


def user_function(thing: Any) -> Any:
    """The function that the user wrote, under custom_gradient's closure."""
    fun = thing.fun
    index = fun.__code__.co_freevars.index("fun")
    return fun.__closure__[index].cell_contents


def label(thing: Any) -> None:
    """Give JAX's closure the user's file and line, so that traces name the user's code."""
    if not is_custom_gradient(thing):
        return
    code = getattr(user_function(thing), "__code__", None)
    if isinstance(code, types.CodeType):
        thing.fun.__code__ = thing.fun.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
        )


def _sign(fun: Any, place: tuple[str, int]) -> bool:
    """A wrapper's closure gets its maker's file and line, so that it is not a library's rule.

    True if it is one: then the wrapper is the custom gradient, not what it holds.
    """
    code = getattr(fun, "__code__", None)
    if not isinstance(code, types.CodeType) or not _plumbing(code.co_filename):
        return False
    fun.__code__ = code.replace(co_filename=place[0], co_firstlineno=place[1])
    return True


def _plumbing(name: str) -> bool:
    return any(name.startswith(part) or name.endswith(part) for part in _PASS_THROUGH) or any(
        f"/site-packages/{part}" in name for part in _WRAPPER_CODE
    )


def _maker() -> tuple[str, int] | None:
    """File and line of the first frame that is neither ours nor a library's plumbing."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return None  # a library makes a rule of its own while it is imported
        if not _plumbing(name):
            return name, frame.f_lineno
        frame = frame.f_back
    return None


class _WrapperFinder:
    """Patches equinox's and flax's wrappers once they are imported; imports nothing itself."""

    def __init__(self, objects: list[Found], undo: list[Callable[[], None]]) -> None:
        self._found, self._undo = objects, undo
        self._done: set[tuple[str, str]] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if len(self._done) < len(_WRAPPERS):
            self.patch_loaded()

    def patch_loaded(self) -> None:
        for module_name, attribute in _WRAPPERS:
            module = sys.modules.get(module_name)
            cls = getattr(module, attribute, None)
            key = (module_name, attribute)
            if isinstance(cls, type) and key not in self._done:
                self._done.add(key)
                self._undo.append(_patch_init(cls, _WRAPPERS[key], self._found))


_WRAPPERS = {
    ("equinox._ad", "filter_custom_vjp"): "filter_custom_vjp",
    ("equinox._ad", "filter_custom_jvp"): "filter_custom_jvp",
    ("flax.nnx.transforms.autodiff", "CustomVjp"): "nnx.custom_vjp",
}
