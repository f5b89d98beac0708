"""The CLI's side of `cgcheck record`: one command under watch, and what its processes wrote, as one file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gradcheck_cli.contract.errors import SettingsError, UsageError
from gradcheck_cli.project import recorded_calls
from gradcheck_cli.project.recorded_calls import Calls

_BOOT = Path(__file__).parent / "boot"


def record_command(command: list[str], root: Path, file: Path, *, fresh: bool) -> int:
    """Run a command under watch and return its exit status; a line on standard error says what was recorded."""
    old = {} if fresh else recorded_calls.load(file)
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "CGCHECK_RECORD": folder}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_BOOT), env.get("PYTHONPATH"))))
        try:
            status = subprocess.run(command, env=env, check=False).returncode
        except OSError as error:
            raise UsageError(f"cannot run `{command[0]}`: {error.strerror}") from None
        parts = [_of_process(part, root) for part in sorted(Path(folder).glob("*.json"))]
    new = recorded_calls.merged({}, parts)
    if not new:
        print("cgcheck: it called no custom gradient of this project", file=sys.stderr)
        return status
    recorded_calls.save(file, recorded_calls.merged(old, [new]))
    calls = sum(map(len, new.values()))
    print(f"cgcheck: {_count(calls, 'way')} to call {_count(len(new), 'custom gradient')}, in {file.name}", file=sys.stderr)  # fmt: skip
    return status


def _of_process(part: Path, root: Path) -> Calls:
    """Paths relative to the project; what lies outside of it is not the user's."""
    own: Calls = {}
    try:
        calls = recorded_calls.load(part)
    except SettingsError:
        return {}  # the process was killed while it wrote
    for name, each in calls.items():
        path, _, qualname = name.rpartition(":")
        try:
            display = Path(path).resolve().relative_to(root.resolve()).as_posix()
        except ValueError:
            continue
        own[f"{display}:{qualname}"] = each
    return own


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
