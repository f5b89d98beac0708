"""Why a call gives no result: the signature is not taken, or the derivative rule raises."""

from __future__ import annotations

from gradcheck_cli.contract.errors import CgcheckError


class Rejected(CgcheckError):
    """A signature that the function does not take: try another one. `detail` is the whole error."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class Declined(Rejected):
    """The rule takes an argument for a number, not for a tensor to differentiate: offer it as one."""

    def __init__(self, argument: str) -> None:
        super().__init__(f"`{argument}` is a number, not a tensor")
        self.argument = argument


class RuleError(CgcheckError):
    """The function runs, its derivative rule raises. That is a finding."""

    def __init__(
        self, stage: str, message: str, *, certain: bool = False, silent: bool = False
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.certain = certain  # wrong whatever the shapes: the number of gradients, say
        self.silent = silent  # it does not raise: we say that it is wrong


NO_GRAD_FUNCTION = "TypeError: it returns no grad function: write `return value, grad`"
