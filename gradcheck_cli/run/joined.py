"""Findings that know of each other: errors that are inherited, and what source and run tell of one fault."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.run.inherited import inherit
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.witnessed import witness


def join(files: Sequence[File], others: Sequence[File] = ()) -> None:
    """First gradients get the errors that they inherit, from these or other files; then two findings of one fault become one."""
    inherit([*others, *files])
    for file in files:
        witness(file)
