"""The words of the project as structs: the JSON contract and the wire format at once.

Floats that JSON cannot hold ("nan", "inf", "-inf") and numbers over the reals
(decimal strings) travel as strings. Long because a contract is read best in one place.
"""

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
    """One array argument of a custom gradient, as it was made."""

    path: str
    dtype: str
    shape: list[int]
    domain: str
    source: str


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


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The operation that explains a failure, and the expression it stands in."""

    path: str | None
    line: int | None
    column: int | None
    expression: str | None
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
    gradient_index: int | None = None
    modes: list[str] = []
    dtypes: list[str] = []
    backends: list[str] = []
    witness: Witness | None = None
    boundary: list[Boundary] = []
    profile: Profile | None = None
    cause: Cause | None = None
    fix: str | None = None
    expect: str | None = None  # what declares it, if it was meant
    fingerprint: str = ""
    reproduce: str | None = None


class LawResult(msgspec.Struct, frozen=True, kw_only=True):
    law: str
    outcome: Outcome
    evidence: Evidence | None = None
    points: int = 0
    reason: str | None = None


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
    findings: list[int] = []


class NotCovered(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be checked, why, and the line to add."""

    gradient: str
    law: str | None
    what: str
    reason: str
    add: str | None = None


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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int
    tool: Tool
    summary: Summary
    gradients: list[Gradient]
    findings: list[Finding]
    not_covered: list[NotCovered]
    durations: dict[str, float] | None = None


# -- calls that were recorded --------------------------------------------------------


class FloatArg(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="float", omit_defaults=True
):
    """An array of floats: its numbers if they are few, else what is known of them."""

    dtype: str
    shape: list[int]
    low: float | None = None
    high: float | None = None
    values: list[float] | None = None
    structure: str | None = None  # a family of the input language


class IntArg(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="int", omit_defaults=True
):
    """An array of integers or booleans."""

    dtype: str
    shape: list[int]
    low: int | None = None
    high: int | None = None
    values: list[int] | None = None


class PlainArg(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="value"):
    value: bool | int | float | str | None


class TreeArg(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="tree"):
    """A dict (with names), list or tuple of arguments."""

    kind: str
    items: list[RecordedArg]
    names: list[str] = []


class OpaqueArg(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="other"):
    """What is not kept: a function, an object."""

    type: str


RecordedArg = FloatArg | IntArg | PlainArg | TreeArg | OpaqueArg


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a custom gradient was called."""

    arguments: dict[str, RecordedArg]


# -- what a worker says --------------------------------------------------------------


class Phase(StrEnum):
    """The stages of a worker's way, as they are shown; most are followed by a detail."""

    STARTING = "starting"
    IMPORTING = "importing"
    LOOKING = "looking for custom gradients"
    INPUTS = "finding inputs"
    TRACING = "tracing"
    RUNNING = "running"
    COMPARING = "comparing"
    EXPLAINING = "explaining"
    SEARCHING = "searching"
    CORRECTING = "looking for the change that makes it right"

    @property
    def is_ours(self) -> bool:
        """Is it our own work, which ends when time is up, and not user code that may hang?"""
        return self in (Phase.COMPARING, Phase.EXPLAINING, Phase.SEARCHING, Phase.CORRECTING)


class Doing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the worker is about to do: if it dies, this is what it died of."""

    phase: Phase
    detail: str = ""
    gradient: str | None = None
    line: int | None = None
    inputs: list[WitnessInput] = []  # the one point that is being run, if it is one

    @property
    def text(self) -> str:
        """The phase with its detail, as the screen shows it."""
        return f"{self.phase} {self.detail}".rstrip()


class Checked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One gradient is done."""

    gradient: Gradient
    findings: list[Finding] = []
    not_covered: list[NotCovered] = []
    scripts: dict[
        str, str
    ] = {}  # by fingerprint: the script that was asked for, or why there is none
    seconds: dict[str, float] = {}  # by law, and by what all laws share


class FileFinding(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A finding about the file itself."""

    finding: Finding


class Unreached(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A custom gradient that the source defines and the run never met."""

    not_covered: NotCovered


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring floats with one fate, as ordinals (one for each argument); a box if there are several."""

    result: int
    kind: str
    first: list[int]
    last: list[int]
    count: int
    within: bool  # is one of them of a size that models meet (SEMANTICS A5)?
    bits: float | None = None  # at the worst of them, which is `at`
    at: list[int] | None = None


class Swept(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of a sweep is done: `part` of `parts`."""

    gradient: str
    line: int
    dtype: str
    arguments: list[str]
    results: list[str]
    part: int
    parts: int
    floats: int
    evidence: Evidence
    stretches: list[Stretch]
    levels: list[list[float]]  # for each result the least correct bits, in order of the argument


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The worker is through with its file."""

    versions: dict[str, str]  # of the frameworks that it used
    out_of_time: bool = False  # it ended before its time was up; the rest is for another one


Event = Doing | Checked | FileFinding | Unreached | Swept | Finished


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts of a sweep a worker is to do: every so-manieth, but for those that are done."""

    number: int
    of: int
    done: list[int] = []
    grid: int = 4096  # points, where there are too many floats for all


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is asked to do: one file or module, with the settings that matter there."""

    path: str
    root: str
    display: str
    module: str | None
    functions: list[str]
    marked: dict[str, list[str]]  # by framework: `name@scope` as the source shows it
    dtypes: list[str]
    points: int
    seed: int
    max_time: float | None
    at: list[str]
    reach: float
    device: str
    cache: str | None
    backend: str | None = None  # of a framework that runs on others
    expects: dict[str, str] = {}  # declared intents, by the same
    only_inputs: bool = False  # say what they would be, and check nothing
    script: str | None = None  # a fingerprint: write the script of that finding
    search: int = (
        0  # inputs that hypothesis tries for each signature, where the lattice found no error
    )
    sweep: Share | None = None  # look at every float instead of checking
    inputs: dict[str, str] = {}  # specs, by the gradient's name or the line that they stand for
    references: dict[
        str, str
    ] = {}  # by name: "module:function", differentiated instead of the primal
    calls: dict[str, list[RecordedCall]] = {}  # by qualname: as it was called in a recorded run
    skip: list[str] = []  # gradients that are done with, or that a worker died of
    alone: str | None = None  # the gradient that a worker died of: point by point, to know at which


def decode_event(data: bytes) -> Event:
    """One event from a worker."""
    event: Event = msgspec.msgpack.decode(data, type=Event)
    return event
