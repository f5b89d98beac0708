"""Derivatives of custom ops that another file of the project registers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.discover.importing import import_file
from gradcheck_cli.frameworks.torch.private_api import CustomOpDef, parts_of
from gradcheck_cli.project.users import root_of, users
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_REGISTERS = "register_autograd"


def import_registrations(path: str, ops: Sequence[CustomOpDef]) -> None:
    """Import the files that register derivatives for these ops, where this one leaves them without."""
    bare = [parts_of(op).body.__name__ for op in ops if parts_of(op).backward is None]
    home = Path(path)
    for file in users(home, root_of(home), {_REGISTERS}) if bare else ():
        text = file.read_text(encoding="utf-8")
        if file != home and any(name in text for name in bare):
            with contextlib.suppress(UserCodeError), calling_user_code():
                import_file(file)
