"""A run of the linter: files, and comments that suppress."""

from __future__ import annotations

import io
import os
import sys
import tokenize
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from gradcheck_cli.contract.errors import CgcheckError, TargetError
from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.lint.linted import linted
from gradcheck_cli.lint.notebook import notebook
from gradcheck_cli.project.comments import Ignore, parse
from gradcheck_cli.project.files import NOTEBOOK, Target, resolve, shown
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter
from gradcheck_cli.run.lint_cache import LintCache, key_of
from gradcheck_cli.run.state import digest

STANDARD_INPUT, SHOWN_AS = "-", "<stdin>"
_MARK = "cgcheck:"  # of comments that say something to us
_ALONE = 24  # files that one process reads by itself: starting others takes longer
_CHUNK = 16
_EVERY_RULE = Filter(None, frozenset())


@dataclass(frozen=True, slots=True)
class Read:
    """A file, all findings in it, and the comments that suppress some of them."""

    display: str
    all_findings: tuple[Finding, ...]
    ignores: tuple[Ignore, ...] = ()
    content: str = ""  # the name of what was read

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that no comment suppresses."""
        return tuple(_EVERY_RULE.keep(self.all_findings, self.ignores))


def lint_files(
    paths: Sequence[str], settings: Settings, root: Path, cache: LintCache | None = None
) -> list[Read]:
    """All files that the paths name, in their order."""
    if list(paths) == [STANDARD_INPUT]:
        return [_read_source(sys.stdin.read(), SHOWN_AS)]
    work = [(str(file), display) for file, display in files_of(paths, settings, root)]
    return read_files(work, cache)


def read_files(
    work: Sequence[tuple[str, str]],
    cache: LintCache | None,
    contents: Mapping[str, str] | None = None,
) -> list[Read]:
    """These files, each with how it is shown; what the cache knows by its content is not read again.

    The names of some contents may be known, by path.
    """
    if cache is None:
        return _all_read(work)
    keys = [_key(path, display, (contents or {}).get(path)) for path, display in work]
    known = {key: said for key in keys if key and (said := cache.get(key)) is not None}
    open_ = [each for each, key in zip(work, keys, strict=True) if key not in known]
    new = iter(_all_read(open_))
    files = []
    for (_, display), key in zip(work, keys, strict=True):
        said = known.get(key)
        files.append(next(new) if said is None else Read(display, *said))
        if said is None and files[-1].content:  # which may not be what it was when it was asked for
            cache.put(
                key_of(display, files[-1].content), (files[-1].all_findings, files[-1].ignores)
            )
    cache.save()
    return files


def _key(path: str, display: str, content: str | None) -> str:
    """The name of a file in the cache; none for a file that cannot be read."""
    try:
        return key_of(display, content or digest(Path(path).read_bytes()))
    except OSError:
        return ""


def _all_read(work: Sequence[tuple[str, str]]) -> list[Read]:
    """These files; many are shared out to all cores."""
    cores = os.cpu_count() or 1
    if len(work) < _ALONE or cores == 1:
        return [_read_file(each) for each in work]
    try:
        # No plain fork: this process may have threads, of which a screen is drawn.
        with ProcessPoolExecutor(cores, get_context("forkserver")) as pool:
            return list(pool.map(_read_file, work, chunksize=_CHUNK))
    except BrokenProcessPool:
        text = "a process that reads files was killed, perhaps for its memory; name fewer files"
        raise CgcheckError(text) from None


def findings_of(source: str, display: str, settings: Settings) -> list[Finding]:
    """What is told of a source under these settings."""
    chosen = Filter.of(settings.select, settings.ignore)
    return chosen.keep(_read_source(source, display).findings)


def files_of(paths: Sequence[str], settings: Settings, root: Path) -> list[tuple[Path, str]]:
    """The files that these name, each with how it is shown."""
    files = [_whole(target) for target in resolve(paths, settings.exclude, notebooks=True)]
    return [(file, shown(file, root)) for file in files]


def displays_of(paths: Sequence[str], settings: Settings, root: Path) -> set[str]:
    """How the files that these name are shown; standard input is none."""
    if list(paths) == [STANDARD_INPUT]:
        return set()
    return {display for _, display in files_of(paths, settings, root)}


def _whole(target: Target) -> Path:
    """The file of a target; a function alone, or a module without a source, is not what the linter reads."""
    if target.path is None:
        raise TargetError(f"{target.module}: it has no source that could be read")
    if target.functions:
        raise TargetError(f"{target.path}:{target.functions[0]}: the linter reads whole files")
    return target.path


def _read_file(work: tuple[str, str]) -> Read:
    path, display = work
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        return Read(display, (find(RuleName.UNREADABLE_FILE).finding(display, 1, str(error)),))
    read = _read_notebook(data, display) if path.endswith(NOTEBOOK) else _read_data(data, display)
    return replace(read, content=digest(data))


def _read_data(data: bytes, display: str) -> Read:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        source = io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (SyntaxError, UnicodeDecodeError) as error:
        return Read(display, (find(RuleName.UNREADABLE_FILE).finding(display, 1, str(error)),))
    return _read_source(source, display)


def _read_notebook(data: bytes, display: str) -> Read:
    try:
        book = notebook(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        text = f"it cannot be read as a notebook: {error}"
        return Read(display, (find(RuleName.UNREADABLE_FILE).finding(display, 1, text),))
    read = _read_source(book.source, display)
    return Read(display, tuple(map(book.placed, read.findings)))


def _read_source(source: str, display: str) -> Read:
    try:
        findings = linted(source, display)
    except Exception as error:  # noqa: BLE001 — a bug of ours costs one file one finding
        rule = find(RuleName.INTERNAL_ERROR)
        return Read(display, (rule.finding(display, 1, f"cgcheck itself failed: {error!r}"),))
    if _MARK not in source:
        return Read(display, tuple(findings))
    comments = parse(source)
    malformed = find(RuleName.MALFORMED_COMMENT)
    told = [
        malformed.finding(display, m.line, f"`{m.text}`: {m.problem}") for m in comments.malformed
    ]
    return Read(display, (*findings, *told), tuple(comments.ignores))
