"""Cold start: `cgcheck --help` and a one-rule file, beside bare JAX doing one compiled gradient.

Whole processes, in turn, so that a drift of the machine meets all of them alike.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 9

BARE = """
import jax, jax.numpy as jnp
print(jax.jit(jax.grad(lambda x: 3 * x))(1.0))
"""

RULE = """
import jax

@jax.custom_gradient
def triple(x):
    return 3 * x, lambda ct: 3 * ct
"""


def seconds(command: list[str], cwd: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    return time.perf_counter() - start


def main() -> None:
    cgcheck = [sys.executable, "-m", "gradcheck_cli"]
    seeds = Path(__file__).parent.parent / "fixtures" / "seeds" / "custom_gradient.py"
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        (cwd / "rule.py").write_text(RULE)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "cgcheck --help": [*cgcheck, "--help"],
            "bare JAX, one gradient": [sys.executable, "-c", BARE],
            "cgcheck rule.py": [*cgcheck, "rule.py"],
            "cgcheck rule.py --no-cache": [*cgcheck, "rule.py", "--no-cache"],
            "cgcheck log1pexp (4 findings)": [*cgcheck, str(seeds)],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for round_ in range(ROUNDS + 1):
            for name, command in commands.items():
                took = seconds(command, cwd)
                if round_:  # the first round warms the disk
                    times[name].append(took)
    bare = times["bare JAX, one gradient"]
    print(f"{'':32}{'median s':>9}{'min':>8}{'max':>8}{'/ bare JAX':>12}")
    for name, row in times.items():
        ratio = statistics.median(a / b for a, b in zip(row, bare, strict=True))
        print(f"{name:32}{statistics.median(row):9.3f}{min(row):8.3f}{max(row):8.3f}{ratio:12.2f}")


if __name__ == "__main__":
    main()
