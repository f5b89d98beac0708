"""From a target to what a worker is asked: read the source, sort what it defines by framework and backend."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pathspec
from msgspec.structs import replace

from gradcheck_cli.contract.errors import TargetError
from gradcheck_cli.contract.worker import AskedPoint, Kind, Mark, Task
from gradcheck_cli.project import comments, recorded_calls
from gradcheck_cli.project.chosen_backend import chosen_backend
from gradcheck_cli.project.files import Target, shown
from gradcheck_cli.project.framework_marks import BACKENDS, DEFAULT, Backend
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.source_marks import by_framework
from gradcheck_cli.run.read_source import marks_of, meaningless, nothing_defined, text_of
from gradcheck_cli.run.skims import Skims
from gradcheck_cli.run.target_file import File


def needs(task: Task) -> Kind:
    """Frameworks that a worker of this task imports; of an installed module they are not known before."""
    used = {*task.marked, *([task.backend] if task.backend else [])}
    return frozenset(used or {DEFAULT}), task.backend


@dataclass(frozen=True)
class TargetReader:
    """Reads the sources of targets and makes tasks of them, under these settings; nothing of theirs is run."""

    settings: Settings
    root: Path
    asked: Sequence[AskedPoint] = ()  # with `--at`
    cache: str | None = None
    only_inputs: bool = False
    script: str | None = None
    plots: bool = False
    skims: Skims = field(default_factory=Skims)  # what is known of files by earlier runs

    def tasks(self, target: Target) -> list[Task]:
        """The tasks of one target; a file that cannot be read is an error."""
        file = self.read(target)
        if file.findings:
            raise TargetError(f"{file.display}: {file.findings[0].message}")
        return file.tasks

    @functools.cached_property
    def _recorded(self) -> recorded_calls.Calls:
        return recorded_calls.load(self.root / self.settings.recordings)

    def display(self, path: Path) -> str:
        """A file as it is shown: relative to the project, if it lies there."""
        return shown(path, self.root)

    def read(self, target: Target) -> File:
        """Read a file's source; only one that defines custom gradients gets a task."""
        if target.path is None:
            display = target.module or ""
            task = self.task(target, display)
            tasks = [replace(task, backend=b) for b in self._backends(display)]
            return File(display, tasks, whole=not target.functions)
        display = target.module or self.display(target.path)
        file = File(display, whole=not target.functions)
        file.ignores = list(self._ignored_here(display))
        skims = not self._is_looked_into(target)
        if skims and self._is_known_to_define_nothing(
            file, target.path, of_module=target.module is not None
        ):
            return file
        source = text_of(target.path, display)
        if not isinstance(source, str):
            file.findings.append(source)
            return file
        comment = comments.parse(source)
        file.ignores = [*comment.ignores, *file.ignores]
        file.findings += meaningless(comment, display)
        skim = self.skims.put(target.path, source) if skims else None
        if skim is not None and self.skims.are_kept:
            file.content = skim.content
        # Of one that is only skimmed it is open whether it is Python.
        file.skimmed = skim is not None and not skim.words.may_define(target.path, self.skims.leads)
        marks = [] if file.skimmed else marks_of(source, target.path, display)
        if not isinstance(marks, list):
            file.findings.append(marks)
            return file
        self._sort_marks(file, target, marks, chosen_backend(source))
        # Of one that is only skimmed, its words say whether the linter may have something to tell.
        is_linted = skim is None or not file.skimmed or skim.computes
        file.source = target.path if is_linted and not target.module else None
        inputs = {str(item.applies_to): item.text for item in comment.inputs}
        expects = {str(item.applies_to): item.text for item in comment.expects}
        references = {str(item.applies_to): item.text for item in comment.references}
        file.tasks = [
            replace(
                task,
                inputs=task.inputs | inputs,
                expects=task.expects | expects,
                references=task.references | references,
            )
            for task in file.tasks
        ]
        return file

    def _is_known_to_define_nothing(self, file: File, path: Path, *, of_module: bool) -> bool:
        """Was it read before, with nothing in it for us? Then its findings are the linter's."""
        skim = self.skims.get(path)
        if skim is None or skim.says_something(path, self.skims.leads):
            return False
        file.skimmed, file.content = True, skim.content
        file.source = path if skim.computes and not of_module else None
        return True

    def _is_looked_into(self, target: Target) -> bool:
        """Is it asked for by itself, or imported whatever it says?"""
        return target.explicit or bool(target.functions) or self.settings.import_all

    def _ignored_here(self, display: str) -> Iterator[comments.Ignore]:
        """Suppressions in the settings for this path."""
        for pattern, names in self.settings.per_file_ignores.items():
            if pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(display):
                yield comments.Ignore(0, comments.WHOLE_FILE, tuple(names), "the settings")

    def _sort_marks(
        self, file: File, target: Target, marks: Sequence[Mark], own: Backend | None
    ) -> None:
        if marks or target.functions or self.settings.import_all:
            file.tasks = list(self._tasks(target, file.display, marks, own))
        elif target.explicit:
            file.findings.append(nothing_defined(file.display))

    def _tasks(
        self, target: Target, display: str, marks: Sequence[Mark], own: Backend | None
    ) -> Iterator[Task]:
        """One task for the file; what runs on several backends gets one for each of them, or for its own choice."""
        plain = [m for m in marks if m.framework not in BACKENDS]
        if plain or not marks:
            yield self.task(target, display, plain)
        for framework, backends in BACKENDS.items():
            mine = [m for m in marks if m.framework == framework]
            for backend in self._chosen(backends, own) if mine else ():
                task = self.task(target, display, mine)
                yield replace(task, backend=backend)

    def _backends(self, module: str) -> list[str | None]:
        """Backends for an installed module: those asked for, or all of a framework that has several."""
        backends = BACKENDS.get(module.partition(".")[0])
        if backends is not None:
            return list(self._chosen(backends))
        return list(self.settings.backend) or [None]

    def _chosen(self, backends: Sequence[str], own: Backend | None = None) -> list[str]:
        """Backends that are installed, unless some are asked for, or the file chooses one."""
        there = [b for b in backends if importlib.util.find_spec(b) is not None]
        asked = self.settings.backend or ([own] if own and own in there else [])
        return [b for b in backends if b in asked] if asked else there or [backends[0]]

    def task(self, target: Target, display: str, marks: Sequence[Mark] = ()) -> Task:
        """The task that the settings alone make of a target."""
        s = self.settings
        return Task(
            path=str(target.path.resolve()) if target.path else "",
            root=str(self.root),
            display=display,
            module=target.module,
            functions=list(target.functions),
            marked=by_framework(marks),
            dtypes=s.dtype,
            points=s.points,
            search=s.search,
            order=s.order,
            seed=s.seed,
            max_time=s.max_time,
            at=list(self.asked),
            reach=s.reach,
            device=s.device,
            cache=self.cache,
            references=s.references,
            optional_imports=s.optional_imports,
            inputs=dict(s.inputs),
            expects=dict(s.expects),
            only_inputs=self.only_inputs,
            script=self.script,
            plots=self.plots,
            calls=recorded_calls.of_file(self._recorded, display),
        )
