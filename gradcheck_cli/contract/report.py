"""The report as structs: this is the JSON contract."""

from __future__ import annotations

from enum import StrEnum

import msgspec

SCHEMA_VERSION = 1

Number = float | str

Values = Number | list[Number]


class Severity(StrEnum):
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Verdict(StrEnum):
    """Ordered from good to bad."""

    CORRECT = "correct"
    INTENDED = "intended"
    INCONCLUSIVE = "inconclusive"
    UNSTABLE = "unstable"
    WRONG = "wrong"

    @property
    def rank(self) -> int:
        return list(Verdict).index(self)


class Evidence(StrEnum):
    """How the truth was obtained, ordered from strong to weak."""

    CERTIFIED = "certified"
    MULTIPRECISION = "multiprecision"
    FLOAT64 = "float64"
    FINITE_DIFFERENCE = "finite-difference"

    @property
    def rank(self) -> int:
        return list(Evidence).index(self)


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not-applicable"
    NOT_COVERED = "not-covered"


class Status(StrEnum):
    CHECKED = "checked"
    UNCHECKED = "unchecked"


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a custom gradient, or a part of one, as it was made.

    `signature` numbers the calls that were judged: inputs of one number belong together.
    """

    path: str
    dtype: str  # `fixed` for what is not differentiated
    shape: list[int]
    domain: str
    source: str
    signature: int = 1


class WitnessInput(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    dtype: str
    shape: list[int]
    value: Values | None
    recipe: str | None = None


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs, cotangent and the numbers there; `argument` and `index` name the component."""

    inputs: list[WitnessInput]
    cotangent: Values | None
    argument: str | None
    index: list[int]
    value: Number | None = None
    value_real: str | None = None
    custom: Number | None = None
    custom_real: str | None = None
    auto: Number | None = None
    truth: str | None = None
    bits: float | None = None
    mode: str | None = None


class Boundary(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "stop": "to"}):
    """The interval of one argument over which a finding holds."""

    argument: str
    index: list[int]
    start: Number
    stop: Number
    from_open: bool = False
    to_open: bool = False


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Correct bits over one argument: the one-line plot."""

    argument: str
    at: list[Number]
    bits: list[float]
    full: float


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """Correct bits along one argument, or one element of it, while `held` stays as it is.

    Of all components the worst one counts; None where the truth is no number, or nothing was computed.
    """

    argument: str
    index: list[int]
    dtype: str
    at: list[Number]
    value: list[float | None]
    rule: list[float | None] | None  # None: it has none of its own
    autodiff: list[float | None] | None  # None: there is none, as through an opaque call
    full: float
    held: list[WitnessInput]
    shows: list[str] = []  # fingerprints of the findings that lie on this line


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The operation that explains a failure, and the expression it stands in."""

    path: str | None
    line: int | None
    column: int | None
    expression: str | None
    text: str
    end_line: int | None = None
    end_column: int | None = None


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What to write between two places of a file; columns count letters from one on, the end one beyond."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violated law or matched pattern, at a place, with a witness."""

    rule: str
    code: str
    severity: Severity
    path: str
    line: int
    message: str
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None
    help: str | None = None
    gradient: str | None = None
    gradient_line: int | None = None  # where it is defined; a finding may stand elsewhere
    gradient_index: int | None = None
    modes: list[str] = []
    dtypes: list[str] = []
    backends: list[str] = []
    witness: Witness | None = None
    boundary: list[Boundary] = []
    profile: Profile | None = None
    cause: Cause | None = None
    fix: str | None = None
    edits: list[Edit] = []  # what makes the fix, all of it or nothing
    fix_is_safe: bool = False  # does it compute the same, at least as well, wherever it was tried?
    pattern: str | None = None  # the linter's rule whose expression is the cause
    withdrawn_by: str | None = None  # the gradient whose run did not show what the linter told
    expect: str | None = None  # what declares it, if it was meant
    trusts: list[str] = []  # inner rules that the formula takes at their word
    traceback: list[str] = []  # the calls from the rule to where it raised
    fingerprint: str = ""
    reproduce: str | None = None


class Suppressor(StrEnum):
    """Where a user says that a finding is not to be told."""

    COMMENT = "comment"
    SETTINGS = "settings"
    BASELINE = "baseline"


class Suppressed(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that is not told, where the user says so, and why."""

    finding: Finding
    by: Suppressor
    path: str  # the file that it is about, where the comment stands
    line: int | None = None  # of the comment
    reason: str | None = None


class LawResult(msgspec.Struct, frozen=True, kw_only=True):
    law: str
    outcome: Outcome
    evidence: Evidence | None = None
    points: int = 0
    reason: str | None = None


class UnseenChange(msgspec.Struct, frozen=True, kw_only=True):
    """A small change that would have passed: no judged input tells it from what is written."""

    change: str
    kind: str
    of: str  # the function, or the rule
    path: str | None  # if it is another file than the gradient's
    line: int | None
    hint: str | None  # the comment that would show it
    of_shape: bool  # would other shapes, axes or branches show it?


class Adequacy(msgspec.Struct, frozen=True, kw_only=True):
    """How many small changes of function and rule the judged inputs would have shown."""

    shown: int
    counted: int
    equal: int
    forgiven: int
    unseen: list[UnseenChange] = []
    not_covered: str | None = None  # why function or rule could not be changed

    @property
    def at_shapes_only(self) -> bool:
        """Is the gradient right only as far as these shapes tell?"""
        return any(change.of_shape for change in self.unseen)


class Gradient(msgspec.Struct, frozen=True, kw_only=True):
    """One custom gradient (or, of kind `function`, a named function without a rule)."""

    id: str
    name: str
    qualname: str
    path: str
    line: int
    framework: str
    kind: str
    backend: str
    device: str
    dtypes: list[str]
    status: Status
    reason: str | None = None
    verdict: Verdict | None = None
    evidence: Evidence | None = None
    inputs: list[Input] = []
    points: int = 0
    laws: list[LawResult] = []
    adequacy: Adequacy | None = None
    findings: list[int] = []
    plots: list[Plot] = []  # if a format draws them
    ignored: int = 0  # errors and warnings that comments or settings keep from being shown


class Scope(StrEnum):
    """Parts of a gradient that code must tell from others; of most, people read only the text."""

    WHOLE_GRADIENT = "the whole gradient"


class NotCovered(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be checked, why, and the line to add."""

    gradient: str
    law: str | None
    what: str
    reason: str
    add: str | None = None
    path: str | None = None

    @classmethod
    def whole(cls, gradient: str, reason: str, add: str | None = None) -> NotCovered:
        """A gradient of which nothing at all was checked."""
        return cls(gradient=gradient, law=None, what=Scope.WHOLE_GRADIENT, reason=reason, add=add)

    @property
    def is_whole(self) -> bool:
        """Was nothing at all of the gradient checked?"""
        return self.what == Scope.WHOLE_GRADIENT


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str
    jax: str | None
    torch: str | None = None
    tensorflow: str | None = None
    keras: str | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    files: int
    gradients: int
    checked: int
    unchecked: int
    errors: int
    warnings: int
    notes: int
    linted: int = 0  # files of which only the source was read
    known: int = 0  # findings that a baseline keeps from being shown


class Report(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int
    tool: Tool
    summary: Summary
    gradients: list[Gradient]
    findings: list[Finding]
    not_covered: list[NotCovered]
    suppressed: list[Suppressed] = []  # for the record: in no count, and in no exit code
    durations: dict[str, float] | None = None
