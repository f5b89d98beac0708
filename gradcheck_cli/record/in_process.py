"""Inside a recorded process: watch each framework once it is imported, and write what is called.

Nothing heavy is imported before the program itself imports a framework.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gradcheck_cli.project.framework_marks import WATCHED

if TYPE_CHECKING:
    from gradcheck_cli.project.recorded_calls import Calls
    from gradcheck_cli.subject.protocol import CustomGradient


def start(folder: str) -> None:
    """Once in a process; its children start anew."""
    sys.meta_path.insert(0, _Watcher(Path(folder)))


class _Watcher(MetaPathFinder):
    """Finds nothing itself: it wraps the loaders of the frameworks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: Calls = {}
        self.recorder: Any = None
        self.importing: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in WATCHED or fullname in self.importing:
            return None
        self.importing.add(fullname)
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def imported(self) -> None:
        """A framework is there: from now on its calls are seen."""
        with contextlib.suppress(Exception):  # the user's program runs on, whatever we lack
            if self.recorder is None:
                from gradcheck_cli.project.recorded_calls import MOST_CALLS
                from gradcheck_cli.record.watch import Recorder

                self.recorder = Recorder(MOST_CALLS, self.write)
            self.recorder.watch()

    def write(self, gradient: CustomGradient, arguments: Mapping[str, Any]) -> None:
        """Write each new way of calling at once: whatever kills the process later, it is kept.

        Objects of one definition share a name, and with it the number of calls that are kept.
        """
        from gradcheck_cli.project.recorded_calls import MOST_CALLS, save
        from gradcheck_cli.record.encode import encoded

        call = encoded(arguments)
        calls = self.calls.setdefault(f"{gradient.place.path}:{gradient.place.qualname}", [])
        if call not in calls and len(calls) < MOST_CALLS:
            calls.append(call)
            save(self.folder / f"{os.getpid()}.json", self.calls)


class _Loader(Loader):
    """The framework's own loader; it tells the watcher once the framework is imported."""

    def __init__(self, loader: Any, watcher: _Watcher) -> None:
        self.loader = loader
        self.watcher = watcher

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.watcher.imported()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)
