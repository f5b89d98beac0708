"""What an answer of ours rests on beside a project: cgcheck itself, Python, what is installed, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from gradcheck_cli.contract.version import __version__
from gradcheck_cli.project.reads import package_folders

_LETTERS = 16
# Environment variables that change what frameworks and Python do.
_HEARD = (
    "JAX_", "XLA_", "TF_", "KERAS_", "TORCH", "PYTORCH_", "TRITON_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "ROCM_",
    "HIP_", "OMP_", "MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "LD_", "PYTHON",
)  # fmt: skip
_PACKAGES = (".dist-info", ".egg-info", ".pth")
_RECORDS = ("direct_url.json", "RECORD")  # where it came from, and what it is made of
_PROCESSOR = Path("/proc/cpuinfo")


def digest(*parts: bytes) -> str:
    """A short name for these bytes."""
    told = hashlib.blake2b(digest_size=_LETTERS)
    for part in parts:
        told.update(len(part).to_bytes(8, "little") + part)
    return told.hexdigest()


def state_of(files: Iterable[Path]) -> str:
    """The version of cgcheck, and the content of these files of it: a fresh installation is the same state."""
    return digest(__version__.encode(), *(path.read_bytes() for path in sorted(files)))


def surroundings() -> str:
    """Python, the packages that are installed, the machine, and the settings that the environment has for them."""
    heard = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_HEARD))
    told = [sys.version, sys.prefix, platform.system(), platform.machine(), _processor(), *heard]
    return digest(*map(os.fsencode, told), *_packages())


def _processor() -> str:
    """The name of the processor: another one may round in other places."""
    with suppress(OSError):
        lines = _PROCESSOR.read_text(encoding="utf-8").splitlines()
        return next((line for line in lines if line.startswith("model name")), "")
    return platform.processor()


def _packages() -> Iterator[bytes]:
    """Each installed package with its version, where it came from, and how long the list of its files is."""
    own = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    for folder in sorted({*package_folders(), *own}):
        with suppress(OSError):
            for place in sorted(p for p in Path(folder).iterdir() if p.name.endswith(_PACKAGES)):
                yield os.fsencode(place.name)
                yield from _records(place)


def _records(package: Path) -> Iterator[bytes]:
    for name in _RECORDS:
        with suppress(OSError):
            path = package / name
            yield path.read_bytes() if name.endswith(".json") else str(path.stat().st_size).encode()
