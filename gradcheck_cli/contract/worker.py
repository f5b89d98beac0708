"""What a worker is asked to do, and the events that it sends back."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gradcheck_cli.contract.recorded import RecordedCall
from gradcheck_cli.contract.report import Finding, Gradient, NotCovered, WitnessInput
from gradcheck_cli.contract.sweep_map import Share, Swept

Kind = tuple[frozenset[str], str | None]  # of workers: their frameworks, and a backend

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
    DRAWING = "measuring along each argument"

    @property
    def is_ours(self) -> bool:
        """Is it our own work, which ends when time is up, and not user code that may hang?"""
        return self in _OURS


_OURS = (Phase.COMPARING, Phase.EXPLAINING, Phase.SEARCHING, Phase.CORRECTING, Phase.DRAWING)


class Doing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the worker is about to do: if it dies, this is what it died of."""

    phase: Phase
    detail: str = ""
    gradient: str | None = None
    line: int | None = None
    inputs: list[WitnessInput] = []  # the one point that is being run, if it is one
    call: str = ""  # with inputs that were made up, while these are looked for

    @property
    def text(self) -> str:
        """The phase with its detail, as the screen shows it."""
        return f"{self.phase} {self.detail}".rstrip()


class Script(msgspec.Struct, frozen=True):
    """A finding as a program of its own; or, where none can be written, the reason."""

    text: str | None
    reason: str = ""


class RefusedInputs(msgspec.Struct, frozen=True):
    """Inputs that the function takes and its rule refuses, and how it does."""

    inputs: str
    reason: str


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside the inputs of a gradient that are judged: others, and how to write these down."""

    refused: list[RefusedInputs] = []
    vain: int = 0  # other calls, which the function refuses
    first_refusal: str = ""
    comment: str = ""  # asks for the richest inputs again; empty if no comment can
    stated_by: str = ""  # what states its inputs already: a comment, recorded calls
    first_line: int = 0  # of the definition in the file that is looked at; 0: it is not there
    last_line: int = 0  # of its header


class Checked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One gradient is done; a provisional one is followed by another that takes its place."""

    gradient: Gradient
    provisional: bool = False  # what makes it right is still looked for, or it is to be begun again
    candidates: Candidates | None = None  # where inputs alone were asked for
    findings: list[Finding] = []
    not_covered: list[NotCovered] = []
    scripts: dict[str, Script] = {}  # by fingerprint: what was asked for
    seconds: dict[str, float] = {}  # by law, and by what all laws share


class FileFinding(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A finding about the file itself."""

    finding: Finding


class Unreached(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A custom gradient that the source defines and the run never met."""

    not_covered: NotCovered


class Users(msgspec.Struct, frozen=True):
    """A question to a project: which files under its root use this one, and speak of one of the names?"""

    home: str
    root: str
    names: list[str]


class Reads(msgspec.Struct, frozen=True):
    """What a worker read beside installed packages: its answer holds as long as that stays as it is."""

    files: list[str]
    missing: list[str]  # files that it would have read
    listed: list[str]  # folders of which it knows what is in them
    variables: list[str]  # of the environment
    absent: list[str]  # modules that were sought and are not there
    users: list[Users]
    folders: list[str]  # in which modules are sought


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The worker is through with its file."""

    versions: dict[str, str]  # of the frameworks that it used
    out_of_time: bool = False  # it ended before its time was up; the rest is for another one
    reads: Reads | None = None  # if it was asked for


Event = Doing | Checked | FileFinding | Unreached | Swept | Finished


class Mark(msgspec.Struct, frozen=True):
    """One custom gradient as the source shows it; an anonymous one is named `<kind>`."""

    name: str
    line: int
    framework: str
    kind: str
    scope: str | None = None  # the enclosing function, if any

    @property
    def is_anonymous(self) -> bool:
        """Is it made of something that has no name, such as a lambda?"""
        return self.name == f"<{self.kind}>"


class AskedPoint(msgspec.Struct, frozen=True):
    """A point that the user asks for with `--at`: numbers by the names of arguments."""

    numbers: dict[str, list[float]]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is asked to do: one file or module, with the settings that matter there."""

    path: str
    root: str
    display: str
    module: str | None
    functions: list[str]
    marked: dict[str, list[Mark]]  # by framework
    dtypes: list[str]
    points: int
    seed: int
    max_time: float | None
    at: list[AskedPoint]
    reach: float
    device: str
    cache: str | None
    backend: str | None = None  # of a framework that runs on others
    expects: dict[str, str] = {}  # declared intents, by the gradient's name or its line
    only_inputs: bool = False  # say what they would be, and check nothing
    plots: bool = False  # measure along each argument what a format draws
    script: str | None = None  # a fingerprint: write the script of that finding
    order: int = 1  # 2: a second derivative is wanted of each gradient
    search: int = (
        0  # inputs that hypothesis tries for each signature, where the lattice found no error
    )
    sweep: Share | None = None  # look at every float instead of checking
    inputs: dict[str, str] = {}  # specs, by the gradient's name or the line that they stand for
    references: dict[
        str, str
    ] = {}  # by name: "module:function", differentiated instead of the primal
    optional_imports: list[str] = []  # packages that may be missing
    calls: dict[str, list[RecordedCall]] = {}  # by qualname: as it was called in a recorded run
    deadly: list[str] = []  # calls with inputs that were made up, of which a worker died
    skip: list[str] = []  # gradients that are done with, or that a worker died of
    alone: str | None = None  # the gradient that a worker died of: point by point, to know at which


def decode_event(data: bytes) -> Event:
    """One event from a worker."""
    event: Event = msgspec.msgpack.decode(data, type=Event)
    return event
