"""Control flow. Points of one batch may take different ways: they part and meet again."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import COUNTED_TRIPS, FLOAT_TRIPS
from gradcheck_cli.reals.inner_jaxprs import held_and_carried
from gradcheck_cli.reals.rules.rule import Rule, batched, spread
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES


def _rows(values: list[Any], rows: Any) -> list[Any]:
    return [v if v.shape[0] == 1 else v[rows] for v in values]


def _cond(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    which, *operands = values
    branches = step.subs
    if step.in_avals[0].kind == "b":
        taken = [which != YES, which != 0]  # an unknown one takes both
    else:
        index = np.clip(which, 0, len(branches) - 1)
        taken = [index == i for i in range(len(branches))]
    batch = batched(values)
    merged: list[Any] = []
    for branch, mask in zip(branches, taken, strict=True):
        rows = np.flatnonzero(spread(mask, batch))
        if not len(rows):
            continue
        outs = walk(branch, domain.view(rows, batch), _rows(operands, rows))
        if not merged:
            merged = [None] * len(outs)
        merged = [
            _meet(domain, old, out, rows, batch) for old, out in zip(merged, outs, strict=True)
        ]
    return [value for value, _ in merged]


def _meet(domain: Any, old: Any, new: Any, rows: Any, batch: int) -> tuple[Any, Any]:
    """Write the rows of one branch; where another branch wrote, keep the union."""
    value, written = old or (
        np.empty((batch, *new.shape[1:]), dtype=new.dtype),
        np.zeros(batch, bool),
    )
    new = spread(new, len(rows))
    again = written[rows]
    value[rows[~again]] = new[~again]
    if again.any():
        value[rows[again]] = domain.union(value[rows[again]], new[again])
    written[rows] = True
    return value, written


def _while(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    cond, body = step.subs
    a, b = step.params["cond_nconsts"], step.params["body_nconsts"]
    cond_consts, body_consts, state = values[:a], values[a : a + b], values[a + b :]
    batch = batched(values)
    state = [np.array(spread(v, batch)) for v in state]
    active = np.arange(batch)
    floats = any(aval.kind == "f" for s in cond.steps for aval in s.in_avals)
    for _ in range((FLOAT_TRIPS if floats else COUNTED_TRIPS).value):
        view = domain.view(active, batch)
        (go,) = walk(cond, view, [*_rows(cond_consts, active), *_rows(state, active)])
        each = spread(go, len(active))
        go = each.reshape(len(active), -1).max(axis=1)  # a vector of conditions: while any holds
        each = each[go != 0]
        open_question = active[go == UNKNOWN]
        active = active[go != 0]
        if not len(active):
            return state
        before = _rows(state, active)
        view = domain.view(active, batch)
        after = walk(body, view, [*_rows(body_consts, active), *before])
        after = [spread(v, len(active)) for v in after]
        if each.ndim > 1:
            kinds = [aval.kind for aval in step.out_avals]
            after = [_where(view, each, *x) for x in zip(kinds, before, after, strict=True)]
        # Newton until equality never decides: it ends once successive states overlap. (Asked before
        # the new state is written: that of a single row is not copied.)
        settled = domain.overlap_rows(before, after)
        for value, new in zip(state, after, strict=True):
            value[active] = new
        active = active[~(np.isin(active, open_question) & settled)]
        if not len(active):
            return state
    domain.view(active, batch).give_up()
    return state


def _where(domain: Any, each: Any, kind: str, old: Any, new: Any) -> Any:
    """The state of a vector of loops: those that go on (or might) take the new one."""
    going = np.where(each != NO, YES, NO).astype(each.dtype)
    which = going.reshape(each.shape + (1,) * (new.ndim - each.ndim))
    return domain.select(kind, which, old, new)


def _scan(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (body,) = step.subs
    p = step.params
    constants, carries = held_and_carried(p)
    consts = values[:constants]
    carry = values[constants : constants + carries]
    xs = values[constants + carries :]
    length = p["length"]
    collected: list[list[Any]] = []
    for i in reversed(range(length)) if p["reverse"] else range(length):
        outs = walk(body, domain, [*consts, *carry, *(x[:, i] for x in xs)])
        carry, ys = outs[:carries], outs[carries:]
        collected.append(ys)
    if p["reverse"]:
        collected.reverse()
    columns = list(zip(*collected, strict=True)) if collected else []
    stacked = []
    for column in columns:
        batch = batched(column)
        stacked.append(np.stack([spread(v, batch) for v in column], axis=1))
    if not columns:
        stacked = [
            domain.constant(np.zeros(aval.shape, aval.dtype)) for aval in step.out_avals[carries:]
        ]
    return [*carry, *stacked]


TABLE: dict[str, Rule] = {"cond": _cond, "while": _while, "scan": _scan}
