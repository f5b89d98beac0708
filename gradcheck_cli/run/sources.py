"""What the linter tells of the files of a run."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.run.lint_cache import LintCache
from gradcheck_cli.run.linting import read_files
from gradcheck_cli.run.target_file import File


def read_sources(files: Sequence[File], cache: str | None) -> None:
    """Give each file what is told of its source; what cannot be read, or is said wrongly, has been told already."""
    kept = None if cache is None else LintCache(Path(cache).parent)
    there = [(file, file.source) for file in files if file.source is not None]
    contents = {str(source): file.content for file, source in there if file.content}
    read = read_files([(str(source), file.display) for file, source in there], kept, contents)
    for (file, source), each in zip(there, read, strict=True):
        file.linted = [found for found in each.all_findings if find(found.rule).is_static]
        if file.skimmed:  # nobody has told yet that it is no Python
            file.findings += [f for f in each.all_findings if f.rule == RuleName.SYNTAX_ERROR]
        if file.linted and file.tasks:
            with tokenize.open(source) as stream:
                file.tree = ast.parse(stream.read())
