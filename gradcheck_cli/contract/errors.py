"""One tree of errors.

CgcheckError
├── UserError            the user can mend it: exit code 2
│   ├── UsageError       the command line
│   ├── SettingsError    [tool.cgcheck] in pyproject.toml
│   └── TargetError      a path or module that is not there
├── InternalError        our bug: exit code 3
├── UserCodeError        code that is not ours raised             (subject/user_code)
├── Rejected             a signature that a function refuses      (subject/refusals)
├── RuleError            a rule raises where its function runs    (subject/refusals)
├── WentWrong            a call made in another way goes wrong    (subject/other_calls)
└── Untraceable          no program over the reals                (frameworks/shared/tracing)
"""

from __future__ import annotations


class CgcheckError(Exception):
    """Base of all errors that cgcheck raises on purpose."""


class UserError(CgcheckError):
    """Something the user can mend."""


class UsageError(UserError):
    """The command line does not make sense."""


class SettingsError(UserError):
    """The settings do not make sense."""


class TargetError(UserError):
    """A path, module or function that is not there."""


class InternalError(CgcheckError):
    """A bug of ours."""
