"""A second run: a project of 100 files with a rule each, cold, warm and with one file changed, beside ruff and mypy.

    python benchmarks/warm.py [--plain 5000]

With `--plain` so many files of 240 lines stand beside them, which define no gradient. Whole processes on one tree; each tool has a cache of its own in a folder that begins empty.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, ROUNDS = 100, 5

RULE = '''"""Module {n}."""

import jax
import jax.numpy as jnp
{imports}

@jax.custom_vjp
def act{n}(x):
    return {n}.0 * x * jnp.tanh(x)


def _fwd(x):
    return act{n}(x), x


def _bwd(x, g):
    t = jnp.tanh(x)
    return (g * {n}.0 * (t + x * (1 - t * t)),)


act{n}.defvjp(_fwd, _bwd)


def layer{n}(x):
    return act{n}(x) + {more}
'''

PLAIN = '''
def blend{n}(x, y, weight=0.5):
    """The mean of two, by this weight."""
    scale = jnp.abs(x).max() + 1.0
    mixed = weight * x / scale + (1 - weight) * y
    return jnp.tanh(mixed) * scale
'''


def write(folder: Path, plain: int) -> None:
    """Each fifth module imports the one before it; those without a gradient stand in folders of a hundred."""
    body = "\n\n".join(PLAIN.format(n=n) for n in range(30))
    for n in range(plain):
        place = folder / "pkg" / f"part{n // 100}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"plain{n}.py").write_text(f'"""Module {n}."""\n\nimport jax.numpy as jnp\n{body}')
    (folder / "pkg").mkdir(exist_ok=True)
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pyproject.toml").write_text("[project]\nname = 'sample'\nversion = '0'\n")
    for n in range(FILES):
        uses = n % 5 == 4
        imports = f"\nfrom pkg.m{n - 1} import layer{n - 1}\n" if uses else ""
        more = f"layer{n - 1}(x)" if uses else n
        (folder / "pkg" / f"m{n}.py").write_text(RULE.format(n=n, imports=imports, more=more))


def seconds(command: list[str], cwd: Path) -> float:
    env = {**os.environ, "CGCHECK_CACHE_DIR": str(cwd / ".cgcheck_cache")}
    start = time.perf_counter()
    subprocess.run(command, cwd=cwd, capture_output=True, check=False, env=env)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", type=int, default=0)
    given = parser.parse_args()
    tools = {
        "cgcheck": [sys.executable, "-m", "gradcheck_cli", "pkg"],
        "ruff check": [shutil.which("ruff") or "ruff", "check", "pkg"],
        "mypy": [sys.executable, "-m", "mypy", "pkg"],
    }
    print(
        f"{'':12}{'cold':>8}{'warm':>8}{'one changed':>13}   seconds; medians of {ROUNDS}, cold once"
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write(place, given.plain)
        for name, command in tools.items():
            cold = seconds(command, place)
            warm = [seconds(command, place) for _ in range(ROUNDS)]
            changed = []
            for n in range(ROUNDS):
                with (place / "pkg" / f"m{n}.py").open("a") as file:
                    file.write(f"# {name}\n")
                changed.append(seconds(command, place))
            print(f"{name:12}{cold:8.2f}{statistics.median(warm):8.2f}{statistics.median(changed):13.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
