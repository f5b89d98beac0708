"""A gradient whose calls are announced while its inputs are looked for: what a process died of is not tried again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from gradcheck_cli.check.request import Request
from gradcheck_cli.inputs.signature import Parameter, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Place


def announced(request: Request) -> Announced:
    """The gradient of the request; the parent hears of each call before it is made."""
    return Announced(request.gradient, request.progress.calling, request.task.deadly)


@dataclass(frozen=True, slots=True)
class Announced:
    """The gradient itself, but for how it is fitted."""

    gradient: CustomGradient
    announce: Callable[[str], None]
    deadly: Collection[str]  # calls that a process died of

    def fit(self, signature: Signature, dtype: str) -> Subject:
        shapes = [leaf.shape for leaf in signature.leaves]
        call = f"{self.gradient.place.qualname}({signature.describe()}) {shapes} {dtype}"
        if call in self.deadly:
            raise Rejected("its process dies of this call")
        self.announce(call)
        return self.gradient.fit(signature, dtype)

    @property
    def name(self) -> str:
        return self.gradient.name

    @property
    def spelling(self) -> str:
        return self.gradient.spelling

    @property
    def kind(self) -> str:
        return self.gradient.kind

    @property
    def place(self) -> Place:
        return self.gradient.place

    @property
    def framework(self) -> str:
        return self.gradient.framework

    @property
    def backend(self) -> str:
        return self.gradient.backend

    def parameters(self) -> Sequence[Parameter]:
        return self.gradient.parameters()

    def against(self, reference: Callable[..., Any]) -> CustomGradient:
        return self.gradient.against(reference)

    def rule_code(self) -> Sequence[FunctionType]:
        return self.gradient.rule_code()
