"""The same torch rules: cgcheck, everything included, beside torch.autograd.gradcheck.

gradcheck is given what it asks for, float64 inputs at its best, and the float32 points too; cgcheck's
time is that of the whole process. "bare" is `import torch` with one backward of the same Function.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import stress_values

SOURCE = """
import torch
from torch.autograd import Function


class Right(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.logsigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(-x)


class Clamped(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad.clamp(-1, 1)


class Writes(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(3)


class Overflows(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        e = torch.exp(x)
        return grad * e / (1 + e) ** 2


class SmallIsZero(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1e-6 * torch.sin(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 0
"""
BARE = """
import torch, sys
sys.path.insert(0, {folder!r})
from rules import Right
x = torch.tensor(0.5, requires_grad=True)
Right.apply(x).backward()
"""
ROUNDS = 3
POINTS = 500


def process(command: list[str]) -> float:
    """Median seconds of a whole process."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def passes(rule: type, values: list[float], dtype: torch.dtype) -> tuple[int, float]:
    """At how many points gradcheck is content, and its seconds a point."""
    start, content = time.perf_counter(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in values:
            x = torch.tensor(value, dtype=dtype, requires_grad=True)
            content += bool(torch.autograd.gradcheck(rule.apply, (x,), raise_exception=False))
    return content, (time.perf_counter() - start) / len(values)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.py"
        path.write_text(SOURCE)
        sys.path.insert(0, folder)
        import rules

        check = [sys.executable, "-m", "gradcheck_cli", str(path)]
        report = json.loads(
            subprocess.run([*check, "--output-format", "json"], capture_output=True, text=True, check=False).stdout
        )  # fmt: skip
        verdicts = {g["name"]: g["verdict"] for g in report["gradients"]}
        values = stress_values(format_of("float32"), [], 1e9)[:POINTS]
        print(f"{'rule':<14}{'cgcheck':<12}{'gradcheck, float64':<22}{'float32':<14}ms a point")
        for name, verdict in verdicts.items():
            wide, each = passes(getattr(rules, name), values, torch.float64)
            narrow, _ = passes(getattr(rules, name), values, torch.float32)
            print(f"{name:<14}{verdict:<12}{f'{wide} of {len(values)} pass':<22}{f'{narrow} pass':<14}{each * 1e3:.2f}")  # fmt: skip
        bare = process([sys.executable, "-c", BARE.format(folder=folder)])
        own = [sys.executable, "-m", "gradcheck_cli", f"{path}:Right", "--no-cache"]
        one = process(own)
        few = process([*own, "--points", "64"])
        many = process([*own, "--points", "8000"])
        print(f"\nbare torch {bare:.2f} s; cgcheck, one Function {one:.2f} s ({one / bare:.2f}×)")
        print(f"cgcheck, each further point: {(many - few) / (8000 - 64) * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
