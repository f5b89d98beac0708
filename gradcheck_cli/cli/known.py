"""`--baseline` and `--update-baseline`: findings that are known."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import typer

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Report
from gradcheck_cli.project.baseline import Baseline, Sought, load, save
from gradcheck_cli.project.rule_pages import rules
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter
from gradcheck_cli.report.closing import count
from gradcheck_cli.run.known import Room, without_known


def only_new(
    report: Report,
    files: Callable[[], Collection[str]],
    settings: Settings,
    root: Path,
    *,
    named: str | None,
    update: bool,
    static: bool = False,
) -> Report:
    """The report without what the baseline knows; `named` is the command line's, `files` are those that the run looked at as a whole."""
    if not settings.baseline:
        if update:
            raise UsageError(
                "--update-baseline needs --baseline FILE, or `baseline` in the settings"
            )
        return report
    path = _file(settings.baseline, root, named)
    known = Baseline() if update and not path.exists() else load(path)
    whole = Filter.of(settings.select, settings.ignore)
    lost = {each.path for each in known.findings if not (root / each.path).exists()}
    run = Sought(files(), whole.selects, static, lost)
    if update:
        known = _updated(known, report, run, path)
    elif gone := known.gone(report.findings, run):
        what = count(len(gone), "finding")
        _say(f"{what} of {path.name} no longer there: --update-baseline takes them out")
    return without_known(report, Room.of(known), settings)


def news(
    settings: Settings, root: Path, *, named: str | None, update: bool
) -> Callable[[Report], Report]:
    """Takes what the baseline knows from reports of some files after those of others; nothing while it is written."""
    if update or not settings.baseline:
        return lambda part: part
    room = Room.of(load(_file(settings.baseline, root, named)))
    return lambda part: without_known(part, room, settings)


def _file(baseline: str, root: Path, named: str | None) -> Path:
    return Path(named) if named else root / baseline


def _updated(known: Baseline, report: Report, run: Sought, path: Path) -> Baseline:
    """The baseline as it is written, with what came and went told."""
    if report.summary.exit_code > 1:
        _say(f"{path.name} is left as it is, for not all could be checked{_which(report)}")
        return known
    new = known.updated(report.findings, run)
    old = {each.fingerprint for each in known.findings}
    now = {each.fingerprint for each in new.findings}
    save(path, new)
    _say(
        f"{path.name}: {count(len(now), 'finding')} known, {len(now - old)} new, {len(old - now)} gone"
    )
    return new


def _which(report: Report) -> str:
    """The files that could not be, with what lets a baseline be written all the same."""
    lost = (f.path for f in report.findings if rules()[f.rule].could_not_check)
    names = list(dict.fromkeys(lost))
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f": {names[0]}{more} (`exclude` it, or name what it lacks in `optional-imports`)"


def _say(text: str) -> None:
    typer.echo(f"cgcheck: {text}", err=True)
