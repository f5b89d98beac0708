"""PyTorch as a `Framework`: the seam's view of this folder."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import torch

from gradcheck_cli.frameworks.seam import CustomGradient, Found, Missing, Note, Own, Writing
from gradcheck_cli.frameworks.torch import find as torch_find
from gradcheck_cli.frameworks.torch.bridge import warm
from gradcheck_cli.frameworks.torch.call import device
from gradcheck_cli.frameworks.torch.rules import watching
from gradcheck_cli.frameworks.torch.writing import WRITING
from gradcheck_cli.inputs.infer.reading import read
from gradcheck_cli.inputs.spec import Hints

warm()
torch.set_num_threads(1)  # calls are small, and workers share the cores


class Torch:
    """See `Framework` in the seam."""

    name = "torch"
    version = str(torch.__version__)

    @property
    def device(self) -> str:
        return "cpu" if device() == "cpu" else "gpu"

    @property
    def writing(self) -> Writing:
        return WRITING

    def recording(self) -> AbstractContextManager[list[Found]]:
        return _nothing()

    def watching(self, note: Note) -> AbstractContextManager[None]:
        return watching(note)

    def steady(self) -> AbstractContextManager[None]:
        return nullcontext()

    def find(
        self, module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
    ) -> tuple[Sequence[CustomGradient], Sequence[Missing]]:
        return torch_find.find(module, path, scopes)

    def named(self, module: ModuleType, name: str, path: str, own: Own) -> CustomGradient | None:
        return torch_find.named(module, name, path)

    def hints(self, gradient: Any) -> Hints:
        functions = [("torch.tanh", torch.tanh), ("torch.add", torch.add)]
        found = read(gradient.primal, gradient.parameters(), functions)
        return dataclasses.replace(found, classes={})  # torch differentiates tensors, not objects


@contextlib.contextmanager
def _nothing() -> Iterator[list[Found]]:
    yield []


FRAMEWORK = Torch()
