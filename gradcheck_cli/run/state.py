"""What an answer of ours rests on beside a project: cgcheck itself, Python, what is installed, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from gradcheck_cli.contract.version import __version__
from gradcheck_cli.project.reads import package_folders

_LETTERS = 16
# Environment variables that change what frameworks and Python do.
_HEARD = ("JAX_", "XLA_", "TF_", "KERAS_", "TORCH", "PYTORCH_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "PYTHON")  # fmt: skip


def digest(*parts: bytes) -> str:
    """A short name for these bytes."""
    told = hashlib.blake2b(digest_size=_LETTERS)
    for part in parts:
        told.update(len(part).to_bytes(8, "little") + part)
    return told.hexdigest()


def state_of(files: Iterable[Path]) -> str:
    """The version of cgcheck, and these files of it as they are now."""
    status = ((path, path.stat()) for path in sorted(files))
    told = (f"{path}{found.st_size} {found.st_mtime_ns}".encode() for path, found in status)
    return digest(__version__.encode(), *told)


def surroundings() -> str:
    """Python, the packages that are installed, the machine, and the settings that the environment has for them."""
    heard = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_HEARD))
    told = [sys.version, sys.prefix, platform.platform(), platform.processor(), *heard]
    return digest(*(text.encode() for text in (*told, *_distributions())))


def _distributions() -> Iterable[str]:
    """Each installed package with its version, and when it was put there."""
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for folder in sorted({*package_folders(), *filter(None, own)}):
        if Path(folder).is_dir():
            with os.scandir(folder) as entries:
                found = [e for e in entries if e.name.endswith((".dist-info", ".egg-info", ".pth"))]
            yield from sorted(f"{e.name} {e.stat().st_mtime_ns}" for e in found)
