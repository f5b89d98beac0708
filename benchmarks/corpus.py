"""Real custom gradients of public packages: what is said of each beside what is expected.

    python benchmarks/corpus.py picks.json --python /path/to/venv/bin/python --framework torch

`picks.json` is a list of objects with `framework`, `import_path` and `expected`. The packages are
those of the given Python, which must have cgcheck as well. A whole run a row, so times are cold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

_STABILITY = {"imprecise-gradient", "imprecise-value", "non-finite-gradient", "non-finite-value"}
_NAMED = {
    "undeclared-surrogate", "gradient-mismatch", "nonlinear-cotangent", "safe-at-singularity",
    "redundant-rule", "approximate-rule",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picks")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--framework")
    given = parser.parse_args()
    with open(given.picks, encoding="utf-8") as stream:
        picks = json.load(stream)
    rows = [p for p in picks if given.framework in (None, p["framework"])]
    agreeing = checked = shown = counted = 0
    for pick in rows:
        start = time.perf_counter()
        report = _report(given.python, pick["import_path"])
        seconds = time.perf_counter() - start
        verdict, rules = _said(report)
        agrees = _agrees(pick["expected"], verdict, rules)
        checked += verdict is not None
        agreeing += agrees
        mark = "=" if agrees else "≠" if verdict else "·"
        here = _adequacy(report)
        shown, counted = shown + here[0], counted + here[1]
        print(f"{mark} {pick['import_path']:<70} {pick['expected']:<34} {verdict or '-':<13} {here[0]:>3}/{here[1]:<3} {seconds:5.1f} s", flush=True)  # fmt: skip
    print(f"{checked} of {len(rows)} checked, {agreeing} as expected")
    print(f"small changes: {shown} of {counted} would have been seen")


def _report(python: str, path: str) -> dict[str, Any] | None:
    parts = path.split(".")
    # A class and its method stand after the module.
    cut = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    module, name = ".".join(parts[:cut]), ".".join(parts[cut:])
    command = [python, "-m", "gradcheck_cli", f"{module}:{name}", "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return found


def _said(report: dict[str, Any] | None) -> tuple[str | None, set[str]]:
    """The worst verdict, and the rules of all findings."""
    if report is None:
        return None, set()
    order = ["correct", "intended", "inconclusive", "unstable", "wrong"]
    verdicts = [g["verdict"] for g in report["gradients"] if g["verdict"]]
    worst = max(verdicts, key=order.index, default=None)
    return worst, {f["rule"] for f in report["findings"]}


def _adequacy(report: dict[str, Any] | None) -> tuple[int, int]:
    """How many small changes the inputs would have shown, of how many."""
    told = [g["adequacy"] for g in (report or {"gradients": []})["gradients"] if g["adequacy"]]
    return sum(a["shown"] for a in told), sum(a["counted"] for a in told)


def _agrees(expected: str, verdict: str | None, rules: set[str]) -> bool:
    if verdict is None:
        return False
    if expected.startswith(("WRONG", "BROKEN")):
        return verdict == "wrong"
    if expected.startswith("deliberate"):
        return bool(rules & _NAMED)  # the deviation is named, whatever it is called
    if "unstable" in expected:
        return verdict != "wrong" and bool(rules & _STABILITY)
    return verdict == "correct"


if __name__ == "__main__":
    main()
