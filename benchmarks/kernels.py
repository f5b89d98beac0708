"""Faults put into fused kernels, Triton's and Pallas's, and who sees them; the kernels themselves raise no alarm.

    python benchmarks/kernels.py                            # all of benchmarks/kernels
    python benchmarks/kernels.py benchmarks/kernels/pallas --only norms

A folder holds modules and `mutations.json`: the module, the rule, the fault in words, the text and what stands in its place.
A fault is found if the rule is called wrong. Everything runs on a CPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE = ("--max-time", "900")  # what is found hangs on no machine's speed
_AT_ONCE = 24  # changed modules in one run


@dataclass(frozen=True, slots=True)
class Changed:
    """A module with a fault, or without one."""

    path: Path
    rule: str
    fault: str

    @property
    def target(self) -> str:
        return f"{self.path}:{self.rule}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--only", default="", help="modules whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="each n-th fault alone")
    parser.add_argument(
        "--faults-only", action="store_true", help="without the kernels as they are"
    )
    given = parser.parse_args()
    folders = given.folders or sorted(
        p for p in Path(__file__).with_suffix("").iterdir() if p.is_dir()
    )
    for folder in folders:
        faults = json.loads((folder / "mutations.json").read_text(encoding="utf-8"))
        faults = [fault for fault in faults if given.only in fault["module"]]
        right = [] if given.faults_only else list(_originals(folder, faults))
        _measure(folder, right, faults[:: given.every])


def _measure(folder: Path, right: Sequence[Changed], faults: Sequence[dict[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        wrong = list(_changed(folder, faults, Path(place)))
        print(f"{folder.name}: {len(right)} kernels, {len(wrong)} faults", flush=True)
        alarms = list(_told(right, singly=True))
        found = list(_told(wrong, singly=False))
    print(f"{folder.name}: kernels", dict(sorted(Counter(alarms).items())))
    print(f"{folder.name}: faults", dict(sorted(Counter(found).items())), flush=True)


def _originals(folder: Path, faults: Sequence[dict[str, str]]) -> Iterator[Changed]:
    """Each rule that a fault is put into, as it is."""
    for module, rule in dict.fromkeys((fault["module"], fault["rule"]) for fault in faults):
        yield Changed(folder / module, rule, "as it is")


def _changed(folder: Path, faults: Sequence[dict[str, str]], place: Path) -> Iterator[Changed]:
    """Each fault in a module of its own."""
    for number, fault in enumerate(faults):
        source = (folder / fault["module"]).read_text(encoding="utf-8")
        if source.count(fault["old"]) != 1:
            raise SystemExit(f"{fault['module']}: {fault['old']!r} does not stand there once")
        path = place / f"m{number:03}_{fault['module']}"
        path.write_text(source.replace(fault["old"], fault["new"]), encoding="utf-8")
        yield Changed(path, fault["rule"], fault["fault"])


def _told(changed: Sequence[Changed], *, singly: bool) -> Iterator[str]:
    """The verdict of each, printed line by line; with the seconds that it took, where each has a run of its own."""
    size = 1 if singly else _AT_ONCE
    for start in range(0, len(changed), size):
        these, began = changed[start : start + size], time.monotonic()
        verdicts = _verdicts(these)
        taken = f"{time.monotonic() - began:6.1f} s" if singly else ""
        for each in these:
            verdict = verdicts.get(each.path.name, "not found")
            print(
                f"{each.path.name:32} {each.rule:24} {verdict:14} {taken} {each.fault}", flush=True
            )
            yield verdict


def _verdicts(changed: Sequence[Changed]) -> dict[str, str]:
    """What is said of each module's rule, by the file's name."""
    command = [sys.executable, "-m", "gradcheck_cli", *(each.target for each in changed)]
    command += ["--output-format", "json", "--no-cache", *_PATIENCE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    gradients: list[dict[str, Any]] = json.loads(done.stdout)["gradients"]
    return {
        Path(gradient["path"]).name: gradient["verdict"] or gradient["status"]
        for gradient in gradients
    }


if __name__ == "__main__":
    main()
