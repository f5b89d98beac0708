"""An evening in the sauna: stove, vents, water on the stones, contented bathers.

Times are counted in steps of `Sauna.step` seconds. The functions made here are
differentiable in whatever the host can change: stove power, vents, ladles of water.
"""
from dataclasses import dataclass

from keras import ops


@dataclass(frozen=True)
class Sauna:
    heat_capacity: float = 60.0   # kJ/K, with the panelling
    vent_loss: float = 0.08       # kW/K with the vent fully open
    outside: float = 5.0          # deg C
    step: float = 60.0            # s


def make_room(sauna=Sauna()):
    """Temperature of the room over the evening.

    `room(first, power, vent, leak)`: temperature at the beginning (batch,), stove
    power in kW (batch, steps), vent opening 0..1 (batch, steps), and the leak of the
    walls in kW/K (a scalar). Gives the temperature at the end of every step
    (batch, steps). In equilibrium the stove just covers the losses.
    """
    rate = sauna.step / sauna.heat_capacity

    @ops.custom_gradient
    def room(first, power, vent, leak):
        steps = power.shape[1]
        now, track = first, []
        for t in range(steps):
            loss = (leak + sauna.vent_loss * vent[:, t]) * (now - sauna.outside)
            now = now + rate * (power[:, t] - loss)
            track.append(now)
        temperatures = ops.stack(track, axis=1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            warmth = temperatures - sauna.outside
            ahead = ops.zeros_like(first)
            costate = []
            for t in range(steps - 1, -1, -1):
                ahead = ahead + upstream[:, t]
                costate.insert(0, ahead)
                ahead = ahead * (1.0 - rate * (leak + sauna.vent_loss * vent[:, t]))
            d_power = rate * ops.stack(costate, axis=1)
            d_loss = -d_power * warmth
            return ahead, d_power, sauna.vent_loss * d_loss, ops.sum(d_loss)

        return temperatures, grad

    return room


@ops.custom_gradient
def steam_after_ladles(ladles, response):
    """Steam felt on the bench: every ladle is followed by the same response.

    ladles (batch, steps) in litres; response (lags,) per litre, response[0] being
    the step of the pour itself. What would come after the last step is lost.
    """
    steps, lags = ladles.shape[1], response.shape[0]
    reach = min(steps, lags)
    steam = response[0] * ladles
    for lag in range(1, reach):
        late = ops.pad(ladles[:, : steps - lag], [[0, 0], [lag, 0]])
        steam = steam + response[lag] * late

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_ladles = response[0] * upstream
        d_response = [ops.sum(upstream * ladles)]
        for lag in range(1, lags):
            if lag >= reach:
                d_response.append(ops.zeros_like(d_response[0]))
                continue
            heard = upstream[:, lag:]
            d_ladles = d_ladles + response[lag] * ops.pad(heard, [[0, 0], [0, lag]])
            d_response.append(ops.sum(heard * ladles[:, : steps - lag]))
        return d_ladles, ops.stack(d_response)

    return steam, grad


def make_discontent(tolerance=4.0, too_hot=2.5, reduction="mean"):
    """How far the heat is from what the bathers like.

    `discontent(felt, liked, say)` with felt (steps, bathers), liked (bathers,) and the
    say which each bather has, positive, (bathers,). The penalty is quadratic within
    `tolerance` degrees and linear outside of it; heat above the liking counts
    `too_hot` times as much as heat below.

    reduction: "sum", "mean" (over all steps and bathers) or "say" (the mean over the
    steps of the average in which each bather counts according to the say).
    """
    if reduction not in ("sum", "mean", "say"):
        raise ValueError(reduction)

    @ops.custom_gradient
    def discontent(felt, liked, say):
        gap = felt - liked
        size = ops.abs(gap)
        side = ops.where(gap > 0, too_hot * ops.ones_like(gap), ops.ones_like(gap))
        inside = size <= tolerance
        penalty = side * ops.where(
            inside, 0.5 * gap * gap, tolerance * (size - 0.5 * tolerance))
        steps, bathers = felt.shape
        if reduction == "sum":
            share = ops.ones_like(say)
        elif reduction == "mean":
            share = ops.ones_like(say) / (steps * bathers)
        else:
            share = ops.ones_like(say) / (steps * ops.sum(say))
        total = ops.sum(share * say * penalty)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            bend = side * ops.clip(gap, -tolerance, tolerance)
            d_felt = upstream * share * say * bend
            d_say = upstream * share * ops.sum(penalty, axis=0)
            return d_felt, -ops.sum(d_felt, axis=0), d_say

        return total, grad

    return discontent


def evening(power, vent, ladles, response, liked, say, leak=0.05, steam_warmth=6.0):
    """Discontent of one evening; power, vent and ladles have shape (1, steps)."""
    first = ops.full_like(power[:, 0], 70.0)
    leak = leak * ops.ones_like(power[0, 0])
    air = make_room()(first, power, vent, leak)
    felt = air + steam_warmth * steam_after_ladles(ladles, response)
    bench = ops.transpose(felt) + ops.zeros_like(liked)
    return make_discontent(reduction="say")(bench, liked, say)
