"""How many wrong rules does `--fix` make right, without a person?

    python benchmarks/repairs.py --framework jax [--most 200] [--jobs 2]
    python benchmarks/repairs.py --framework jax --mistakes

Faults of `benchmarks/mutation` are put into right rules, evenly over rules and operators, and each file is handed to
`cgcheck --fix` as a user would; or the files of `benchmarks/mistakes`, which were written blind, each with one human mistake.
Told are those that are right afterwards, and those that are worse: changed, and still wrong by another formula.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "mutation"))
from peers import PEERS
from run import Rule, rules
from spelling import module

_MISTAKES = Path(__file__).parent / "mistakes"
_RIGHT = ("correct", "intended", "unstable")  # of the formula, that is


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=list(PEERS), default="jax")
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--mistakes", action="store_true")
    given = parser.parse_args()
    if given.mistakes:
        mistakes(given.framework, given.jobs)
        return
    chosen = rules()
    for rule in chosen:
        rule.mutate()
    thin(chosen, given.most)
    with tempfile.TemporaryDirectory() as folder:
        for rule in chosen:
            own = {name: mutant for name, (_, mutant) in rule.faults.items()}
            text = module(given.framework, rule.primal, own)
            (Path(folder) / f"rules_{rule.name}.py").write_text(text, encoding="utf-8")
        before = judged(Path(folder), given.jobs)
        after = judged(Path(folder), given.jobs, "--fix")
    tell(chosen, before, after)


def mistakes(framework: str, jobs: str) -> None:
    """The files in which people's mistakes were written down, each with one."""
    kinds = json.loads((_MISTAKES / "fixed.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(_MISTAKES / framework, folder, dirs_exist_ok=True)
        after = judged(Path(folder), jobs, "--fix", of="path")
    own = {name.partition("/")[2]: what["kind"] for name, what in kinds.items() if name.startswith(f"{framework}/")}  # fmt: skip
    right = [name for name in own if after.get(name) in _RIGHT]
    print(f"right after --fix: {len(right)} of {len(own)}")
    for name, kind in own.items():
        if name not in right:
            print(f"  left: {name}: {kind}")


def thin(chosen: list[Rule], most: int) -> None:
    """Leave every n-th fault."""
    names = [name for rule in chosen for name in rule.faults]
    step = max(1, len(names) // most)
    kept = set(names[::step][:most])
    for rule in chosen:
        rule.faults = {name: fault for name, fault in rule.faults.items() if name in kept}


def judged(folder: Path, jobs: str, *flags: str, of: str = "name") -> dict[str, str]:
    """The verdict on each gradient."""
    command = [sys.executable, "-m", "gradcheck_cli", ".", "--output-format", "json", "-j", jobs, "--max-time", "1200", *flags]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    return {g[of]: g["verdict"] or "unchecked" for g in report["gradients"]}


def tell(chosen: list[Rule], before: dict[str, str], after: dict[str, str]) -> None:
    faults = {name: what for rule in chosen for name, (what, _) in rule.faults.items()}
    wrong = [name for name in faults if before.get(name) == "wrong"]
    right = [name for name in wrong if after.get(name) in _RIGHT]
    worse = [name for name in faults if name not in wrong and after.get(name) == "wrong"]
    print(f"{len(faults)} faults, {len(wrong)} found wrong")
    print(f"right after --fix: {len(right)} ({100 * len(right) / max(1, len(wrong)):.0f} %)")
    print(f"made worse: {len(worse)} {worse}")
    for name in wrong:
        if name not in right:
            print(f"  left: {name}: {faults[name]}")


if __name__ == "__main__":
    main()
