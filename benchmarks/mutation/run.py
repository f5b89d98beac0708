"""Mutation testing: faults put into correct rules, and who sees them.

    python benchmarks/mutation/run.py --framework jax [--only NAME] [--jobs 2]

For each rule of `right.py` and each operator of `operators.py` a mutant is written as a user of the
framework would write it. Mutants that equal their original at every one of many points (float64) are
no faults and are left out, as are those that do not run. cgcheck runs once for each file, with no
configuration; the framework's own checkers get the shapes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from operators import mutants
from peers import PEERS
from right import SOURCE
from spelling import module

_POINTS = 12  # of each size, at which a mutant may differ from its original
_SIZES = (0.3, 1.0, 3.0)
_SAME = 1e-11


class Rule:
    """One correct rule, and its mutants by name."""

    def __init__(self, primal: ast.FunctionDef, rule: ast.FunctionDef, shapes: list[tuple[int, ...]]) -> None:  # fmt: skip
        self.primal, self.rule, self.shapes = primal, rule, shapes
        self.faults: dict[str, tuple[str, ast.FunctionDef]] = {}
        self.equal = self.broken = 0

    @property
    def name(self) -> str:
        return self.primal.name

    def mutate(self) -> None:
        probes = list(self._probes())
        right = [_run(self.rule, p) for p in probes]
        seen: set[str] = set()
        for what, mutant in mutants(self.rule):
            text = ast.unparse(mutant)
            if text in seen:
                continue
            seen.add(text)
            got = [_run(mutant, p) for p in probes]
            if any(g is None for g in got) or not _fits(got[0], right[0]):
                self.broken += 1
            elif all(_equal(g, r) for g, r in zip(got, right, strict=True)):
                self.equal += 1
            else:
                self.faults[f"{self.name}_m{len(self.faults)}"] = (what, mutant)

    def _probes(self) -> Iterator[list[Any]]:
        import jax
        import jax.numpy as jnp

        rng = np.random.default_rng(1)
        with jax.enable_x64(True):
            for size in _SIZES:
                for _ in range(_POINTS):
                    args = [jnp.asarray(size * rng.standard_normal(s)) for s in self.shapes]
                    out = _function(self.primal)(*args)
                    yield [jnp.asarray(rng.standard_normal(out.shape)), *args]


def _function(node: ast.FunctionDef) -> Any:
    import jax.numpy as jnp

    scope: dict[str, Any] = {"np": jnp}
    tree = ast.Module([node], [])
    exec(compile(ast.fix_missing_locations(tree), "<rule>", "exec"), scope)
    return scope[node.name]


def _run(node: ast.FunctionDef, probe: list[Any]) -> list[Any] | None:
    import jax

    with jax.enable_x64(True):
        try:
            return [np.asarray(v) for v in _function(node)(*probe)]
        except Exception:
            return None


def _fits(got: Any, right: Any) -> bool:
    return [g.shape for g in got] == [r.shape for r in right]


def _equal(got: Any, right: Any) -> bool:
    return all(np.allclose(g, r, rtol=_SAME, atol=_SAME) for g, r in zip(got, right, strict=True))


def rules() -> list[Rule]:
    tree = ast.parse(SOURCE)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    made = []
    for comment, name in re.findall(r"^# (.*)\ndef (\w+)", SOURCE, re.MULTILINE):
        shapes = [tuple(map(int, dims.split(","))) for dims in re.findall(r"\[([\d,]+)\]", comment)]
        made.append(Rule(functions[name], functions[f"{name}_bwd"], shapes))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=list(PEERS), default="jax")
    parser.add_argument("--only")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--no-peers", action="store_true")
    given = parser.parse_args()
    chosen = [r for r in rules() if given.only in (None, r.name)]
    for rule in chosen:
        rule.mutate()
    total = sum(len(r.faults) for r in chosen)
    print(f"{len(chosen)} rules, {total} faults ({sum(r.equal for r in chosen)} mutants equal their original, {sum(r.broken for r in chosen)} do not run)", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        files = [_written(Path(folder), given.framework, rule) for rule in chosen]
        start = time.perf_counter()
        verdicts, unseen = _cgcheck(Path(folder), given.jobs)
        seconds = time.perf_counter() - start
        peers = {} if given.no_peers else _peers(given.framework, chosen, files)
    _tell(chosen, verdicts, unseen, peers, seconds)


def _written(folder: Path, framework: str, rule: Rule) -> Path:
    """Originals and faults in one file."""
    all_rules = {rule.name: rule.rule} | {name: m for name, (_, m) in rule.faults.items()}
    file = folder / f"rules_{rule.name}.py"
    file.write_text(module(framework, rule.primal, all_rules), encoding="utf-8")
    return file


def _cgcheck(folder: Path, jobs: str) -> tuple[dict[str, str], set[str]]:
    """The verdict on each, after no configuration at all; those whose inputs could not show all, as it says itself."""
    command = [sys.executable, "-m", "gradcheck_cli", ".", "--output-format", "json", "-j", jobs, "--max-time", "1200"]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    errors = {f["gradient"] for f in report["findings"] if f["severity"] == "error"}
    said = {g["name"]: g["verdict"] or "unchecked" for g in report["gradients"]}
    verdicts = {name: "error" if name in errors else verdict for name, verdict in said.items()}
    return verdicts, {g["name"] for g in report["gradients"] if _says_unseen(g)}


def _says_unseen(gradient: dict[str, Any]) -> bool:
    """Does the report say that not every small change would have been seen, or that nothing was judged?"""
    adequacy = gradient["adequacy"]
    return gradient["verdict"] in (None, "inconclusive") or adequacy is None or bool(adequacy["unseen"])  # fmt: skip


def _peers(framework: str, chosen: list[Rule], files: list[Path]) -> dict[str, dict[str, bool]]:
    found: dict[str, dict[str, bool]] = {}
    for rule, file in zip(chosen, files, strict=True):
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        for name, seen in PEERS[framework]().items():
            for fault in (rule.name, *rule.faults):
                with contextlib.suppress(AttributeError):
                    found.setdefault(name, {})[fault] = seen(getattr(made, fault), rule.shapes)
    return found


def _tell(
    chosen: list[Rule],
    verdicts: dict[str, str],
    unseen: set[str],
    peers: dict[str, dict[str, bool]],
    seconds: float,
) -> None:
    faults = {name: what for rule in chosen for name, (what, _) in rule.faults.items()}
    originals = [rule.name for rule in chosen]
    columns = {"cgcheck": {name: v == "error" for name, v in verdicts.items()}, **peers}
    print(f"\n| checker | faults not seen, and said that they could not be | faults seen of {len(faults)} | alarms on {len(originals)} right rules |")  # fmt: skip
    print("|---|---|---|---|")
    for name, seen in columns.items():
        killed = sum(seen.get(f, False) for f in faults)
        alarms = sum(seen.get(o, False) for o in originals)
        left = [f for f in faults if not seen.get(f, False)]
        said = f"{sum(f in unseen for f in left)} of {len(left)}" if name == "cgcheck" else f"0 of {len(left)}"  # fmt: skip
        print(f"| {name} | {said} | {killed} ({100 * killed / max(1, len(faults)):.1f} %) | {alarms} |")  # fmt: skip
    print(f"\ncgcheck: {seconds:.0f} s for {len(verdicts)} gradients")
    for name, verdict in verdicts.items():
        if name in originals and verdict != "correct":
            print(f"  original {name}: {verdict}")
    missed = [name for name in faults if verdicts.get(name) != "error"]
    for name in missed:
        print(f"  missed {name}: {verdicts.get(name, 'not found')}: {faults[name]}")
    kinds = Counter(re.sub(r" (of gradient|in `|\d|for ).*", "", faults[n]) for n in faults)
    print(
        "  faults by kind: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    )


if __name__ == "__main__":
    main()
