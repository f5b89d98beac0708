"""Probing: from what is said of the arguments to the signatures by which the rule is judged."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.clues.arms import Arm
from gradcheck_cli.infer.family import family
from gradcheck_cli.infer.reaching import reaching
from gradcheck_cli.infer.real_sizes import small_count, with_real_sizes
from gradcheck_cli.infer.small_search import SmallSearch
from gradcheck_cli.infer.trial import Trial
from gradcheck_cli.infer.variants import varied
from gradcheck_cli.inputs.parameters import expanded
from gradcheck_cli.inputs.signature import OMITTED, Hints, Parameter, Signature, root
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Declined, Rejected, RuleError

_FIRST_TRIES, _MOST_TRIES = 60, 400
_MOST_ARGUMENTS = 3  # of a function that takes any number
_MORE = (2, 1, 0)  # behind those that have names
_LARGE = 3  # a count that small arrays may not have


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of probing: the subjects that fit, or why nothing does."""

    subjects: list[Subject]
    reason: str
    broken: tuple[Signature, RuleError] | None = None
    # Arrays of one shape, and a gradient of another.
    misfit: tuple[Signature, RuleError] | None = None
    wants_integers: bool = False  # a refusal speaks of them
    refused: Sequence[tuple[Signature, RuleError]] = ()  # richer ones, by the rule alone
    vain: int = 0  # signatures that the function refuses
    first_refusal: str = ""  # the first of these, with its reason
    closed: Sequence[Arm] = ()  # of choices in the text, which no subject takes
    wants_complex: bool = False  # a refusal speaks of complex numbers
    complex_of: str = ""  # the first real argument for which the rule gives a complex gradient


def probe(gradient: CustomGradient, dtype: str, hints: Hints) -> Attempt:
    """Signatures that function and rule accept: recorded ones, or the small and the richest with their variants.

    A signature that the function takes and its rule does not may be one that
    nobody intends; it counts (as `broken`) only if there is none that both take.
    """
    recorded = _recorded(gradient, dtype, hints)
    if recorded is not None:
        return recorded
    parameters = list(gradient.parameters())
    if not any(p.variadic for p in parameters):
        return _of_so_many(gradient, parameters, dtype, hints)
    placed = sum(not p.keyword_only and not p.variadic for p in parameters)
    counts = [placed + more for more in _MORE] if placed else range(1, _MOST_ARGUMENTS + 1)
    attempts = []
    for count in counts:
        attempts.append(_of_so_many(gradient, expanded(parameters, count), dtype, hints))
        if attempts[-1].subjects:
            return attempts[-1]
    return next((a for a in attempts if a.broken is not None), attempts[-1 if placed else 0])


def _of_so_many(
    gradient: CustomGradient, parameters: Sequence[Parameter], dtype: str, hints: Hints
) -> Attempt:
    """Floats for all that may be differentiated; where these do not fit, small counts and integers for some.

    Where the body takes conjugates, complex numbers come first.
    """
    if hints.maybe_complex - hints.complex_numbers:
        told = replace(hints, complex_numbers=hints.complex_numbers | hints.maybe_complex)
        attempt = _probe(gradient, parameters, dtype, told)
        if attempt.subjects:
            return attempt
    floats = _probe(gradient, parameters, dtype, hints)
    fitting = _with_small_counts(gradient, parameters, dtype, hints, floats)
    fitting = _with_integers(gradient, parameters, dtype, hints, fitting)
    fitting = _with_complex(gradient, parameters, dtype, hints, fitting)
    fitting = _with_plain_numbers(gradient, parameters, dtype, hints, fitting)
    real = with_real_sizes(hints)
    if real is None or fitting.subjects or fitting.broken is not None:
        return fitting
    large = _probe(gradient, parameters, dtype, real)
    return large if large.subjects or large.broken is not None else fitting


def _with_plain_numbers(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    dtype: str,
    hints: Hints,
    floats: Attempt,
) -> Attempt:
    """The attempt with plain numbers for what the rule gives no gradient, where arrays for it fit nowhere."""
    declined = {n for n, each in hints.clues.items() if any(clue.declined for clue in each)}
    free = [
        p.name for p in parameters if p.name in declined - set(hints.specs) and p.differentiable
    ]
    if floats.subjects or not free:
        return floats
    for name in free:
        parameters = _with_number(parameters, name)
    plain = _probe(gradient, parameters, dtype, hints)
    return plain if plain.subjects else floats


def _with_small_counts(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    dtype: str,
    hints: Hints,
    floats: Attempt,
) -> Attempt:
    """The attempt with small numbers where defaults are counts of real data: 2 groups in place of 32.

    Only where nothing fits otherwise: fewer steps of a solver are another function.
    """
    large = [p for p in parameters if type(p.default) is int and p.default > _LARGE]
    if floats.subjects or floats.broken is not None or not large:
        return floats
    clues = {p.name: [small_count(p), *hints.clues.get(p.name, ())] for p in large}
    fewer = [replace(p, default=OMITTED) if p in large else p for p in parameters]
    small = _probe(gradient, fewer, dtype, replace(hints, clues={**hints.clues, **clues}))
    return small if small.subjects or small.broken is not None else floats


def _with_integers(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    dtype: str,
    hints: Hints,
    floats: Attempt,
) -> Attempt:
    """The attempt with integers for one or two arguments, where no floats fit and the function asks for them."""
    if floats.subjects or floats.broken is not None or not floats.wants_integers:
        return floats
    names = [p.name for p in parameters if p.differentiable and p.name not in hints.specs]
    for count in (1, 2):
        for chosen in itertools.combinations(reversed(names), count):  # the last ones first
            whole = replace(hints, integers=frozenset(chosen))
            attempt = _probe(gradient, parameters, dtype, whole)
            if attempt.subjects or attempt.broken is not None:
                return attempt
    return floats


def _with_complex(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    dtype: str,
    hints: Hints,
    floats: Attempt,
) -> Attempt:
    """The attempt with complex numbers for one argument at least, where no real ones fit.

    The function asks for them, or its rule, whose gradient of real numbers is complex.
    """
    path = floats.complex_of
    if floats.subjects or not (path or (floats.wants_complex and floats.broken is None)):
        return floats
    free = [p.name for p in parameters if p.differentiable and p.name not in hints.specs]
    names = [n for n in free if n not in hints.real_numbers and (not path or root(path) == n)]
    attempts = []
    for name in names:
        told = replace(hints, complex_numbers=hints.complex_numbers | {name})
        attempts.append(_probe(gradient, parameters, dtype, told))
        if attempts[-1].subjects:
            return attempts[-1]
    broken = (attempt for attempt in attempts if attempt.broken is not None and not path)
    return next(broken, floats)


def _recorded(gradient: CustomGradient, dtype: str, hints: Hints) -> Attempt | None:
    """The attempt with the signatures of real calls; None where none of them fits."""
    subjects: list[Subject] = []
    for signature in hints.calls:
        try:
            subject = gradient.fit(signature, dtype)
            subject.traces()
        except Rejected:
            continue
        except RuleError as error:
            return Attempt([], "", (signature, error.surely()))
        subjects.append(subject)
    return Attempt(subjects, "") if subjects else None


def _probe(
    gradient: CustomGradient, parameters: Sequence[Parameter], dtype: str, hints: Hints
) -> Attempt:
    """A few small signatures, then shapes that are solved for; more small ones only where these give none."""
    search = SmallSearch(gradient, parameters, dtype, hints)
    try:
        search.go(_FIRST_TRIES)
        whole = family(gradient, parameters, dtype, hints, search.subjects)
        if not whole.subjects and whole.broken is None:
            search.go(_MOST_TRIES)
            whole = replace(whole, subjects=search.subjects)
    except Declined as refusal:
        return _probe(gradient, _with_number(parameters, refusal.argument), dtype, hints)
    subjects, broken, misfit = whole.subjects, whole.broken or search.broken, search.misfit
    if subjects and whole.broken is None:
        signatures = [s.signature for s in subjects]
        others = varied(gradient, parameters, signatures, dtype, hints)
        subjects, broken = [*subjects, *others.subjects], others.broken
        misfit = misfit or others.misfit
    closed: Sequence[Arm] = ()
    if subjects and broken is None:
        trial = Trial(gradient, dtype, hints)
        reached = reaching(trial, parameters, subjects)
        subjects, broken, closed = [*subjects, *reached.subjects], trial.broken, reached.closed
    refused = [*whole.refused, *([] if search.broken is None else [search.broken])]
    first = search.first_refusal or whole.first_refusal
    reason = search.reason.or_further(whole.furthest).text
    return Attempt(
        subjects, reason, broken, misfit, search.wants_integers, refused,
        search.vain + whole.vain, first, closed, search.wants_complex,
        search.complex_of,
    )  # fmt: skip


def _with_number(parameters: Sequence[Parameter], name: str) -> list[Parameter]:
    """The parameters, with one of them a number that is not differentiated."""
    return [replace(p, differentiable=False) if p.name == name else p for p in parameters]
