"""Training load, fatigue and heart rate of endurance athletes (TensorFlow)."""

import tensorflow as tf

STEP_SECONDS = 15.0  # sampling step of the head units


def _reduce_to(value, like):
    """Sum `value` over the axes along which `like` was broadcast."""
    shape = like.shape
    extra = value.shape.rank - shape.rank
    value = tf.reduce_sum(value, axis=list(range(extra)))
    axes = [i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1]
    return tf.reduce_sum(value, axis=axes, keepdims=True) if axes else value


def make_impulse_response(lag: str = "previous", step_days: float = 1.0):
    """Build Banister's ``response(load, tau, gain, recorded)``.

    `lag` says whether the load of a day acts from the next day on ("previous") or
    at once ("same"), `step_days` how far apart two columns of the diary are.
    """
    if lag not in ("previous", "same"):
        raise ValueError(f"unknown lag {lag!r}")

    @tf.custom_gradient
    def response(load, tau, gain, recorded):
        """Exponentially fading sum of the loads.

        Parameters
        ----------
        load : (athletes, days) tensor
        tau, gain : tensors, scalar or (athletes, 1)
            Time constant in days, and effect per unit of load.
        recorded : (athletes, days) bool
            Days without a diary entry count as rest days, whatever `load` says.
        """
        entries = tf.unstack(tf.where(recorded, load, 0.0), axis=1)
        athletes = load.shape[0]
        fade = tf.broadcast_to(tf.exp(-step_days / tau), (athletes, 1))[:, 0]
        amp = tf.broadcast_to(gain, (athletes, 1))[:, 0]

        state = tf.zeros_like(entries[0])
        held, states = [], []
        for day, entry in enumerate(entries):
            if lag == "previous":
                before = state + entries[day - 1] if day else state
                state = fade * before
            else:
                before = state
                state = fade * before + entry
            held.append(before)
            states.append(state)
        states = tf.stack(states, axis=1)

        def grad(upstream):
            days = len(entries)
            back = tf.unstack(upstream, axis=1)
            g_load = [tf.zeros_like(amp)] * days
            g_fade = carry = tf.zeros_like(amp)
            for day in reversed(range(days)):
                adj = amp * back[day] + carry
                g_fade += adj * held[day]
                carry = fade * adj
                if lag == "same":
                    g_load[day] = adj
                elif day:
                    g_load[day - 1] = carry
            g_tau = _reduce_to((g_fade * fade)[:, None] * step_days / tau**2, tau)
            g_gain = _reduce_to(upstream * states, gain)
            return tf.where(recorded, tf.stack(g_load, axis=1), 0.0), g_tau, g_gain, None

        return amp[:, None] * states, grad

    return response


class RaterDesk(tf.Module):
    """Session-RPE loads with a bias per rater, centred over the rated minutes."""

    def __init__(self, n_raters: int, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.effect = tf.Variable(tf.zeros([n_raters], dtype), name="effect")

    def corrected_load(self, rpe, minutes, rater):
        """Load of each session, rating times duration.

        Parameters
        ----------
        rpe, minutes : (sessions,) tensors
            Rating on the CR-10 scale and duration; 0 if it was called off.
        rater : (sessions,) int
            Who asked for the rating. A rater asks many athletes.
        """
        rater = tf.convert_to_tensor(rater, tf.int32)
        n_raters = self.effect.shape[0]

        @tf.custom_gradient
        def centred(rpe, minutes):
            bias = tf.gather(self.effect, rater)
            total = tf.reduce_sum(minutes)
            centre = tf.reduce_sum(minutes * bias) / total
            fair = rpe - bias + centre

            def grad(upstream, variables=None):
                flow = upstream * minutes
                pull = tf.reduce_sum(flow)
                g_minutes = upstream * fair + pull * (bias - centre) / total
                if variables is None:
                    return flow, g_minutes
                share = tf.cast(tf.math.bincount(rater, minlength=n_raters), flow.dtype)
                share /= tf.reduce_sum(share)
                own = tf.math.unsorted_segment_sum(flow, rater, n_raters)
                return (flow, g_minutes), [pull * share - own]

            return minutes * fair, grad

        return centred(rpe, minutes)


@tf.custom_gradient
def heart_rate_trace(power, rest, slope, tau_on, tau_off, ceiling):
    """Heart rate that follows the power with first-order kinetics.

    The rate tends to ``min(rest + slope * power, ceiling)``; it rises with
    `tau_on` and recovers with `tau_off`. It starts at `rest`.

    Parameters
    ----------
    power : (rides, samples) tensor, in watts
    rest, slope, tau_on, tau_off, ceiling : tensors, scalar or (rides, 1)
    """
    wide = power.shape
    wanted = rest + slope * power
    below = tf.cast(wanted < ceiling, power.dtype)
    target = below * wanted + (1.0 - below) * ceiling
    on = tf.broadcast_to(tau_on, (wide[0], 1))[:, 0]
    off = tf.broadcast_to(tau_off, (wide[0], 1))[:, 0]

    rate = tf.broadcast_to(rest, (wide[0], 1))[:, 0]
    rises, keeps, rates = [], [], []
    for goal in tf.unstack(target, axis=1):
        rising = goal > rate
        keep = tf.exp(-STEP_SECONDS / tf.where(rising, on, off))
        rate = goal + (rate - goal) * keep
        rises.append(rising)
        keeps.append(keep)
        rates.append(rate)

    def grad(upstream):
        back = tf.unstack(upstream, axis=1)
        goals = tf.unstack(target, axis=1)
        carry = g_on = g_off = tf.zeros_like(on)
        g_goal = []
        for k in reversed(range(len(back))):
            adj = back[k] + carry
            left = adj * (rates[k] - goals[k]) * STEP_SECONDS
            g_on += tf.where(rises[k], left / on**2, 0.0)
            g_off += tf.where(rises[k], 0.0, left / off**2)
            g_goal.append(adj * (1.0 - keeps[k]))
            carry = adj * keeps[k]
        g_goal = tf.stack(g_goal[::-1], axis=1)
        g_rest = g_goal + tf.pad(carry[:, None], [[0, 0], [0, wide[1] - 1]])
        return (
            g_goal * below * slope,
            _reduce_to(g_rest, rest),
            _reduce_to(g_goal * below * power, slope),
            _reduce_to(g_on[:, None], tau_on),
            _reduce_to(g_off[:, None], tau_off),
            _reduce_to(g_goal * (1.0 - below), ceiling),
        )

    return tf.stack(rates, axis=1), grad


class FitnessFatigue(tf.keras.layers.Layer):
    """Performance as baseline + fitness - fatigue."""

    def __init__(self, lag="previous", **kwargs):
        super().__init__(**kwargs)
        self.response = make_impulse_response(lag)

    def build(self, input_shape):
        init = tf.keras.initializers.Constant
        self.base = self.add_weight(shape=(), initializer=init(100.0))
        self.taus = self.add_weight(shape=(2,), initializer=init([42.0, 7.0]), name="taus")
        self.gains = self.add_weight(shape=(2,), initializer=init([0.1, 0.2]), name="gains")

    def call(self, load, recorded):
        taus = tf.convert_to_tensor(self.taus)
        gains = tf.convert_to_tensor(self.gains)
        fitness = self.response(load, taus[0], gains[0], recorded)
        fatigue = self.response(load, taus[1], gains[1], recorded)
        return self.base + fitness - fatigue


def fit_ride(power, observed, worn, start, steps=200, rate=0.01):
    logs = [tf.Variable(tf.math.log(p)) for p in start]
    opt = tf.keras.optimizers.Adam(rate)
    weight = tf.cast(worn, power.dtype)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            trace = heart_rate_trace(power, *[tf.exp(v) for v in logs])
            miss = tf.reduce_sum(weight * (trace - observed) ** 2) / tf.reduce_sum(weight)
        opt.apply_gradients(zip(tape.gradient(miss, logs), logs))
    return [tf.exp(v) for v in logs]
