"""PyTorch as a `Framework`, by the modules of this folder."""

from __future__ import annotations

import dataclasses
import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradcheck_cli.clues.call_sites import calls_of
from gradcheck_cli.clues.reading import read
from gradcheck_cli.frameworks.shared.user_source import plain_functions
from gradcheck_cli.frameworks.torch.find import find, named
from gradcheck_cli.frameworks.torch.hooks import recording, watching
from gradcheck_cli.frameworks.torch.script import WRITING
from gradcheck_cli.frameworks.torch.trace import warm
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.subject.device import asked_for

warm()
torch.set_num_threads(1)  # calls are small, and workers share the cores


class Torch:
    """`Framework` of the protocol."""

    name = "torch"
    version = str(torch.__version__)
    writing = WRITING
    recording, watching = staticmethod(recording), staticmethod(watching)
    find, named = staticmethod(find), staticmethod(named)

    @property
    def device(self) -> str:
        return "gpu" if asked_for() == "gpu" and torch.cuda.is_available() else "cpu"

    def steady(self) -> AbstractContextManager[None]:
        return nullcontext()

    def hints(self, gradient: Any) -> Hints:
        functions = [("torch.tanh", torch.tanh), ("torch.add", torch.add)]
        # A Function's `apply` is its rule.
        cls = getattr(inspect.unwrap(gradient.rule), "__self__", None)
        setup = plain_functions(getattr(cls, "setup_context", None))
        rule = [*gradient.rule_code(), *setup]
        parameters, called = gradient.parameters(), calls_of(gradient)
        hints = read(gradient.primal, parameters, functions, rule=rule, called=called)
        # torch differentiates tensors, not what objects hold
        return dataclasses.replace(hints, objects_are_held=True)


FRAMEWORK = Torch()
