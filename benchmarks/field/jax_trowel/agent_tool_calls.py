"""Objectives for fine-tuning the planner of a tool-calling assistant.

At each turn the planner picks a tool, or answers on its own; a turn may lead
to a whole plan, calls that wait for each other; and a call that fails falls
through to the next in a chain of fallbacks until the budget for the turn is
gone.  The heads below give the quantities the trainer optimises:

``tool_logprobs``
    log-probabilities over the tools a tenant has switched on, and over "no
    call".
``plan_finish_times``
    when each call of a plan ends, softened so that near-critical calls get
    some of the gradient.
``fallback_outcomes``
    what to expect of a chain of fallbacks.

Costs are in thousandths of a cent, times in seconds.
"""
from __future__ import annotations

import functools
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

#: what a switched-off tool reads in the log-probabilities
OFF_LOGPROB = -30.0

REGISTRY: Dict[str, Tuple[float, float]] = {
    # tool            cost   typical seconds
    "calendar.search": (0.4, 0.3),
    "calendar.write": (0.9, 0.6),
    "mail.search": (1.1, 0.8),
    "mail.send": (0.8, 0.5),
    "web.search": (4.0, 1.9),
    "web.open": (2.2, 2.6),
    "python.run": (3.1, 4.2),
    "sql.query": (1.7, 1.4),
}


def registry_columns(names: Optional[Sequence[str]] = None):
    names = list(REGISTRY) if names is None else list(names)
    rows = np.array([REGISTRY[n] for n in names])
    return rows[:, 0], rows[:, 1]


def availability(tenants: Sequence[Sequence[str]]) -> np.ndarray:
    """Boolean table, one row per tenant.  A tenant may have no tools at all."""
    names = list(REGISTRY)
    table = np.zeros((len(tenants), len(names)), bool)
    for r, allowed in enumerate(tenants):
        for name in allowed:
            table[r, names.index(name)] = True
    return table


# ---------------------------------------------------------------------------
# choice
# ---------------------------------------------------------------------------


def _joined(logits, idle, available):
    """Masked logits with the idle one appended on the right."""
    on = jnp.broadcast_to(available, logits.shape)
    last = jnp.broadcast_to(idle, logits.shape[:-1])[..., None]
    masked = jnp.where(on, logits, -jnp.inf)
    return jnp.concatenate([masked, last], axis=-1), on


@jax.custom_vjp
def tool_logprobs(logits, idle, available):
    """Log-softmax over available tools plus the option to make no call.

    Args:
        logits: scores of the tools, ``(..., tools)``.
        idle: one learned score for "no call".
        available: boolean, broadcastable to ``logits``.

    Returns:
        ``(..., tools + 1)``, the last entry for "no call". Tools that are off
        hold ``OFF_LOGPROB``, a constant.
    """
    joined, on = _joined(logits, idle, available)
    logp = joined - jax.nn.logsumexp(joined, axis=-1, keepdims=True)
    return jnp.where(jnp.isneginf(logp), OFF_LOGPROB, logp)


def _tool_logprobs_fwd(logits, idle, available):
    joined, on = _joined(logits, idle, available)
    norm = jax.nn.logsumexp(joined, axis=-1, keepdims=True)
    probs = jnp.exp(joined - norm)
    out = jnp.where(jnp.isneginf(joined), OFF_LOGPROB, joined - norm)
    return out, (probs, on)


def _tool_logprobs_bwd(res, g):
    probs, on = res
    live = jnp.concatenate([jnp.where(on, g[..., :-1], 0.0), g[..., -1:]], axis=-1)
    d_joined = live - probs * jnp.sum(live, axis=-1, keepdims=True)
    return d_joined[..., :-1], jnp.sum(d_joined[..., -1]), None


tool_logprobs.defvjp(_tool_logprobs_fwd, _tool_logprobs_bwd)


# ---------------------------------------------------------------------------
# plans
# ---------------------------------------------------------------------------


def dependency_table(depends: Sequence[Sequence[int]]) -> np.ndarray:
    """Pad lists of predecessors with -1 to one (calls, width) table.

    Calls are in an order in which they may be issued: a call depends only on
    calls before it.
    """
    width = max(1, max(len(d) for d in depends))
    table = np.full((len(depends), width), -1, np.int32)
    for k, ds in enumerate(depends):
        if any(d >= k for d in ds):
            raise ValueError(f"call {k} waits for a later one")
        table[k, : len(ds)] = ds
    return table


def _softmax_start(finish, row, sharpness):
    """Soft maximum of the predecessors' finishing times, and its weights."""
    known = row >= 0
    times = jnp.where(known, finish[:, jnp.where(known, row, 0)], -jnp.inf)
    lift = jnp.max(times, axis=-1, keepdims=True)
    lift = jnp.where(jnp.isneginf(lift), 0.0, lift)
    raw = jnp.where(known, jnp.exp(sharpness * (times - lift)), 0.0)
    total = jnp.sum(raw, axis=-1, keepdims=True)
    some = total > 0
    weights = raw / jnp.where(some, total, 1.0)
    start = jnp.where(some, lift + jnp.log(jnp.where(some, total, 1.0)) / sharpness, 0.0)
    return start[:, 0], weights


def _plan_sweep(latency, table, sharpness):
    finish = jnp.zeros_like(latency)
    weights = []
    for k in range(latency.shape[1]):
        start, w = _softmax_start(finish, table[k], sharpness)
        finish = finish.at[:, k].set(start + latency[:, k])
        weights.append(w)
    return finish, jnp.stack(weights, axis=1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def plan_finish_times(latency, table, sharpness=8.0):
    """Seconds at which the calls of a plan end.

    A call starts when the calls it waits for are done: at the soft maximum
    (log-sum-exp with ``sharpness`` per second) of their ends, or at once.

    latency: (plans, calls)
    table: (calls, width) integers from :func:`dependency_table`
    """
    return _plan_sweep(latency, table, sharpness)[0]


def _plan_finish_times_fwd(latency, table, sharpness):
    finish, weights = _plan_sweep(latency, table, sharpness)
    return finish, (weights, table)


def _plan_finish_times_bwd(sharpness, res, g):
    weights, table = res
    slots = jnp.where(table >= 0, table, 0)
    d_finish = g
    for k in range(g.shape[1]):
        passed = weights[:, k] * d_finish[:, k : k + 1]
        d_finish = d_finish.at[:, slots[k]].add(passed)
    return d_finish, None


plan_finish_times.defvjp(_plan_finish_times_fwd, _plan_finish_times_bwd)


# ---------------------------------------------------------------------------
# fallbacks
# ---------------------------------------------------------------------------


class ChainOutcome(NamedTuple):
    """Expectations over one chain of fallbacks, each (...,)."""

    solved: jax.Array
    calls: jax.Array
    seconds: jax.Array
    cost: jax.Array
    regret: jax.Array


def _reach(success):
    """Chance that the k-th call is made at all, and that none succeeds."""
    failed = jnp.cumprod(1.0 - success, axis=-1)
    first = jnp.ones_like(failed[..., :1])
    return jnp.concatenate([first, failed[..., :-1]], axis=-1), failed[..., -1]


@jax.custom_jvp
def fallback_outcomes(success, seconds, cost, deadline, penalty):
    """Expected outcome of calling tools in turn until one succeeds.

    Parameters
    ----------
    success, seconds, cost : (..., calls)
        Chance of success, duration and price of each call in the chain.
    deadline : (...,)
        A single call is cut off after so many seconds; it is paid for in full
        and its chance of success stays what it was.
    penalty : (...,)
        Price of leaving the turn unsolved.
    """
    reach, unsolved = _reach(success)
    spent = jnp.minimum(seconds, deadline[..., None])
    return ChainOutcome(
        solved=1.0 - unsolved,
        calls=jnp.sum(reach, axis=-1),
        seconds=jnp.sum(reach * spent, axis=-1),
        cost=jnp.sum(reach * cost, axis=-1),
        regret=unsolved * penalty,
    )


def _reach_tangent(success, success_dot):
    """Tangents of both parts of :func:`_reach` by the product recurrence."""
    p = jnp.moveaxis(success, -1, 0)
    dp = jnp.moveaxis(success_dot, -1, 0)
    alive, alive_dot = jnp.ones_like(p[0]), jnp.zeros_like(p[0])
    rows = []
    for k in range(p.shape[0]):
        rows.append(alive_dot)
        alive_dot = alive_dot * (1.0 - p[k]) - alive * dp[k]
        alive = alive * (1.0 - p[k])
    return jnp.stack(rows, axis=-1), alive_dot


@fallback_outcomes.defjvp
def _fallback_outcomes_jvp(primals, tangents):
    success, seconds, cost, deadline, penalty = primals
    success_dot, seconds_dot, cost_dot, deadline_dot, penalty_dot = tangents
    out = fallback_outcomes(*primals)
    reach, unsolved = _reach(success)
    reach_dot, unsolved_dot = _reach_tangent(success, success_dot)
    spent = jnp.minimum(seconds, deadline[..., None])
    return out, ChainOutcome(
        solved=-unsolved_dot,
        calls=jnp.sum(reach_dot, axis=-1),
        seconds=jnp.sum(reach_dot * spent + reach * seconds_dot, axis=-1),
        cost=jnp.sum(reach_dot * cost + reach * cost_dot, axis=-1),
        regret=unsolved_dot * penalty + unsolved * penalty_dot,
    )


# ---------------------------------------------------------------------------
# planner
# ---------------------------------------------------------------------------


class Planner:
    """Linear heads on the turn embedding; enough for the offline trainer."""

    def __init__(self, width: int, tools: int, plan: List[Sequence[int]]):
        self.width = width
        self.tools = tools
        self.table = dependency_table(plan)

    def init(self, key):
        k1, k2, k3 = jax.random.split(key, 3)
        scale = self.width**-0.5
        return {
            "choice": scale * jax.random.normal(k1, (self.width, self.tools)),
            "idle": jnp.zeros(()),
            "latency": scale * jax.random.normal(k2, (self.width, len(self.table))),
            "success": scale * jax.random.normal(k3, (self.width, 3)),
        }

    def loss(self, params, turn, available, chosen, chain, budget):
        logp = tool_logprobs(turn @ params["choice"], params["idle"], available)
        choice = -jnp.mean(jnp.take_along_axis(logp, chosen[:, None], axis=-1))
        latency = jax.nn.softplus(turn @ params["latency"])
        makespan = jnp.mean(plan_finish_times(latency, self.table, 6.0)[:, -1])
        success = jax.nn.sigmoid(turn @ params["success"])
        rows = turn.shape[0]
        seconds, cost = (jnp.broadcast_to(c, (rows, 3)) for c in chain)
        outcome = fallback_outcomes(
            success, seconds, cost, jnp.full((rows,), budget), jnp.full((rows,), 9.0)
        )
        running = jnp.mean(outcome.cost + 0.3 * outcome.seconds + outcome.regret)
        return choice + 0.1 * makespan + 0.05 * running


def demo(seed: int = 0) -> float:
    key = jax.random.PRNGKey(seed)
    planner = Planner(16, len(REGISTRY), [(), (0,), (0, 1), (2,)])
    params = planner.init(key)
    turn = jax.random.normal(key, (5, 16))
    table = availability([["web.search", "web.open"], list(REGISTRY), [], ["sql.query"], ["mail.send"]])
    chosen = jnp.array([4, 6, 8, 7, 8])
    cost, seconds = registry_columns(["sql.query", "web.search", "python.run"])
    step = jax.value_and_grad(planner.loss)
    for _ in range(15):
        value, slope = step(params, turn, table, chosen, (seconds, cost), 3.0)
        params = jax.tree.map(lambda p, s: p - 0.2 * s, params, slope)
    return float(value)


if __name__ == "__main__":
    print("loss", demo())
