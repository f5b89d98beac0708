"""What is missing here, and what is the rule's own fault."""

from __future__ import annotations

import pytest

from gradcheck_cli.subject.environment import lacking

MISSING = [
    (ModuleNotFoundError("No module named 'triton'", name="triton"), "the module `triton`"),
    (FileNotFoundError(2, "No such file or directory", "w.npy"), "the file w.npy"),
    (ValueError("Default process group has not been initialized, please make sure to call init_process_group."), "a process group"),
    (AssertionError("Torch not compiled with CUDA enabled"), "a GPU"),
    (RuntimeError("Found no NVIDIA driver on your system."), "a GPU"),
    (RuntimeError("No CUDA GPUs are available"), "a GPU"),
    (RuntimeError("0 active drivers ([]). There should only be one."), "a GPU"),
    (ValueError("Only interpret mode is supported on CPU backend."), "a GPU"),
    (RuntimeError("x must be a CUDA tensor"), "a GPU"),
    (NameError("Found an unbound axis name: devices."), "an axis name, as a mapped function has one"),
    (RuntimeError("Ninja is required to load C++ extensions"), "a compiler"),
]  # fmt: skip
OWN = [
    NameError("name 'cotangent' is not defined"),
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 3x5)"),
    ValueError("no axis 2 in an array of 2 dimensions"),
    OSError("it is closed"),
    AssertionError(),
    TypeError("CustomGradientFunction.backward() takes 2 positional arguments but 3 were given"),
]


@pytest.mark.parametrize(("error", "what"), MISSING, ids=[str(e)[:30] for e, _ in MISSING])
def test_what_is_not_here(error: BaseException, what: str) -> None:
    assert lacking(error) == what


@pytest.mark.parametrize("error", OWN, ids=repr)
def test_what_the_code_does_wrong(error: BaseException) -> None:
    assert lacking(error) is None


def test_nothing_was_raised() -> None:
    assert lacking(None) is None
