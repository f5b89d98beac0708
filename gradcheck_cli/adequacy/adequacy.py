"""Adequacy (SEMANTICS H): how many small changes of function and rule the judged inputs would have shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from gradcheck_cli.adequacy.change import Change, Kind, Showing
from gradcheck_cli.adequacy.changes import (
    change_of_static,
    changes_of_primal,
    changes_of_rule,
    primal_scene,
    rule_scene,
)
from gradcheck_cli.adequacy.reached import moved_arguments, ways_taken
from gradcheck_cli.adequacy.replay import NotReplayed
from gradcheck_cli.adequacy.sample import sample, sample_of_rule
from gradcheck_cli.adequacy.showings import Showings
from gradcheck_cli.adequacy.watch import PrimalWatch, RuleWatch, Watch
from gradcheck_cli.contract.limits import (
    CHANGE_FORGIVEN,
    CHANGE_SHOWN,
    CHANGES_OF_PRIMAL,
    CHANGES_OF_RULE,
)
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.reals.program import Program


def adequacy(m: Measurements, moved: Sequence[tuple[str, Program]] = ()) -> Showings:
    """What the judged rows of one signature would have shown.

    `moved` are pullbacks of the function with one static argument moved, each in words.
    """
    if m.in_part:
        return Showings(not_covered=("it is too large to be judged whole",))
    total = Showings()
    for look in (partial(_of_primal, moved=moved), _of_rule):
        try:
            total += look(m)
        except NotReplayed as reason:
            total += Showings(not_covered=(str(reason),))
    return total


def _of_primal(m: Measurements, moved: Sequence[tuple[str, Program]]) -> Showings:
    pullback, scene = m.subject.traces().primal, primal_scene(m.subject)
    if pullback is None or scene is None:
        return Showings(not_covered=("the function has no program",))
    rows = sample(m)
    if not rows.count:
        return Showings(not_covered=("the rule is not judged by autodiff of the function",))
    leaves, values = len(m.subject.leaves), len(m.subject.outputs)
    watch = PrimalWatch(pullback, rows, values)
    changes = changes_of_primal(scene, watch.affordable(CHANGES_OF_PRIMAL.value))
    statics = (change_of_static(pullback, p, words, leaves, values) for words, p in moved)
    changes += [change for change in statics if change is not None]
    others = [*moved_arguments(m), *ways_taken(m, scene)]
    return Showings(dict(_showings(watch, changes)) | dict(others))


def _of_rule(m: Measurements) -> Showings:
    pullback, scene = m.subject.traces().rule, rule_scene(m.subject)
    if pullback is None or scene is None or m.rule is None:
        return Showings()
    rows = sample_of_rule(m)
    if not rows.count:
        return Showings()
    names, values = [leaf.path for leaf in m.subject.leaves], len(m.subject.outputs)
    watch = RuleWatch(pullback, rows, values)
    changes = changes_of_rule(scene, names, values, watch.affordable(CHANGES_OF_RULE.value))
    return Showings(dict(_showings(watch, changes)) | dict(ways_taken(m, scene)))


def _showings(watch: Watch, changes: Sequence[Change]) -> Iterator[tuple[Change, Showing]]:
    for change in changes:
        yield change, _showing(watch, change)


def _showing(watch: Watch, change: Change) -> Showing:
    if change.program is None:
        return Showing.FORGIVEN if change.kind is Kind.COMPARISON else Showing.DEGENERATE
    here = watch.at_probes(change.program)
    if here is None:
        return Showing.REFUSED
    if here.beyond(CHANGE_SHOWN.value):
        return Showing.SHOWN
    if here.beyond(CHANGE_FORGIVEN.value):
        return Showing.FORGIVEN
    elsewhere = watch.at_random(change.program)
    if elsewhere is not None and elsewhere.beyond(CHANGE_SHOWN.value):
        return Showing.UNSEEN
    # Other integers might tell what other floats do not.
    return Showing.EQUAL if change.table is None else Showing.UNSEEN
