"""The linter's time on a tree beside that of its peers, in one run, in turn.

    python benchmarks/lint_speed.py FOLDER [--rounds 5] [--flake8 PATH] [--ruff PATH]

Cold is without a cache, warm the second run over the same files. Each round runs every command once, so that all
see the same machine; told are the medians and the least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ruff", default="ruff")
    parser.add_argument("--flake8", default="")
    given = parser.parse_args()
    files = sorted(given.folder.rglob("*.py"))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    print(f"{len(files)} files, {lines:,} lines, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as cache:
        own = [
            sys.executable,
            "-m",
            "gradcheck_cli",
            "lint",
            str(given.folder),
            "--fail-on",
            "never",
        ]
        commands = {
            "cgcheck lint, cold": [*own, "--no-cache"],
            "cgcheck lint, warm": own,
            "ruff check, cold": [given.ruff, "check", "--no-cache", "--exit-zero", "--isolated", "-q", str(given.folder)],
        }  # fmt: skip
        if given.flake8:
            commands["flake8"] = [
                given.flake8,
                "--isolated",
                "--exit-zero",
                "-q",
                str(given.folder),
            ]
        environment = {**os.environ, "CGCHECK_CACHE_DIR": cache}
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        _timed(own, environment)  # fills the cache
        for _ in range(given.rounds):
            for name, command in commands.items():
                seconds[name].append(_timed(command, environment))
    for name, times in seconds.items():
        print(f"{name:22} median {statistics.median(times):6.2f} s, least {min(times):6.2f} s")


def _timed(command: list[str], environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # fmt: skip
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
