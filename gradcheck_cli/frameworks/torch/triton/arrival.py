"""Triton as it arrives: whoever imports it gets its interpreter, without that one's gaps."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_NAME = "triton"
_ROOM = "gradcheck_cli.frameworks.torch.triton.interpreter"
_SWITCH = "TRITON_INTERPRET"  # which Triton reads where a kernel is defined


def interpret_kernels() -> None:
    """From now on kernels are interpreted; nothing is imported for that before user code asks for Triton."""
    os.environ.setdefault(_SWITCH, "1")
    if _NAME in sys.modules:
        _prepare()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _prepare() -> None:
    importlib.import_module(_ROOM).prepare()


class _Finder(importlib.abc.MetaPathFinder):
    """What finds Triton where it is, and is told when it has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Triton's own loader, behind whose work its interpreter is prepared."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        _prepare()
