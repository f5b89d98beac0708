"""Water, oil and heat of staffed mountain refuges.

Fitted to the wardens' logbooks with a plain Adam over a few dozen numbers, so every function has a gradient in all float arguments.
Units: litres, millimetres of rain (litres per square metre of roof), degrees Celsius, watts, centimetres on the dipstick.
"""
import tensorflow as tf

NOMINAL_EXPONENT = 1.3
SERIES_BELOW = 0.03


def _fit(grad, like):
    """Sum ``grad`` down to the shape of ``like`` (numpy broadcasting)."""
    extra = grad.shape.rank - like.shape.rank
    if extra > 0:
        grad = tf.reduce_sum(grad, list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axes, keepdims=True) if axes else grad


@tf.custom_gradient
def rain_tank_season(rain, guests, frozen, first, roof, per_guest, capacity):
    """Rain tank of each refuge over a season; what the tank lacks is flown in.

    Parameters
    ----------
    rain, guests : (days, refuges)
    frozen : bool (days, refuges)
        Gutters are frozen, nothing reaches the tank.
    first : (refuges,)
        Litres in the tank on the first morning, not negative.
    roof, per_guest, capacity : scalar or (refuges,)
        Roof area, litres a guest uses, litres the tank holds (the rest runs over).

    Returns
    -------
    flown : (days, refuges)
        Litres that had to be flown in.
    left : (refuges,)
        Litres left after the last day.
    """
    open_gutter = tf.cast(tf.logical_not(frozen), rain.dtype)
    caught = rain * open_gutter
    demand = per_guest * guests
    days = rain.shape[0]

    level, full, tapped, flown = first, [], [], []
    for day in range(days):
        filled = level + roof * caught[day]
        full.append(filled >= capacity)
        level = tf.minimum(capacity + tf.zeros_like(filled), filled)
        enough = demand[day] <= level
        tapped.append(enough)
        taken = tf.minimum(demand[day], level)
        flown.append(demand[day] - taken)
        level = level - taken

    def grad(up_flown, up_left):
        lam = up_left
        d_demand, d_inflow = [None] * days, [None] * days
        d_capacity = tf.zeros_like(level)
        for day in reversed(range(days)):
            d_taken = -up_flown[day] - lam
            d_demand[day] = up_flown[day] + tf.where(tapped[day], d_taken, 0.0)
            lam = lam + tf.where(tapped[day], 0.0, d_taken)
            d_capacity += tf.where(full[day], lam, 0.0)
            lam = tf.where(full[day], 0.0, lam)
            d_inflow[day] = lam
        d_demand, d_inflow = tf.stack(d_demand), tf.stack(d_inflow)
        return (d_inflow * roof * open_gutter, d_demand * per_guest, None, lam,
                _fit(tf.reduce_sum(d_inflow * caught, 0), roof),
                _fit(tf.reduce_sum(d_demand * guests, 0), per_guest),
                _fit(d_capacity, capacity))

    return (tf.stack(flown), level), grad


@tf.custom_gradient
def dipstick_litres(dip, mark, litres):
    """Litres of heating oil at the dipped depths, linear between the marks of the chart.

    ``dip`` (readings,) in any order, ``mark`` (marks,) rising, ``litres`` (charts, marks), one line for each tank maker, all read
    with the same stick -> (charts, readings).  A dip under the lowest mark or over the highest takes that mark's litres.
    """
    last = mark.shape[0] - 2
    below = tf.clip_by_value(tf.searchsorted(mark, dip, side="right") - 1, 0, last)
    z0, z1 = tf.gather(mark, below), tf.gather(mark, below + 1)
    v0, v1 = tf.gather(litres, below, axis=1), tf.gather(litres, below + 1, axis=1)
    frac = tf.clip_by_value((dip - z0) / (z1 - z0), 0.0, 1.0)
    value = (1.0 - frac) * v0 + frac * v1

    def grad(up):
        n = tf.shape(mark)[0]
        tilt = tf.reduce_sum(up * (v1 - v0), 0) / (z1 - z0)
        d_mark = (tf.math.unsorted_segment_sum(-tilt * (1.0 - frac), below, n)
                  + tf.math.unsorted_segment_sum(-tilt * frac, below + 1, n))
        low = tf.math.unsorted_segment_sum(tf.transpose(up * (1.0 - frac)), below, n)
        high = tf.math.unsorted_segment_sum(tf.transpose(up * frac), below + 1, n)
        return tilt, d_mark, tf.transpose(low + high)

    return value, grad


@tf.custom_gradient
def radiator_heat(supply, back, room, nominal, exponent):
    """Heat given off by a radiator.

        nominal * (m / 50) ** exponent,   m = (a - b) / log(a / b),   a = supply - room,   b = back - room

    The logarithmic mean m goes over into a where supply and back agree.  Both must be warmer than the room.  All five broadcast
    against each other, e.g. supply (hours, 1), nominal (radiators,).
    """
    a, b = supply - room, back - room
    half = 0.5 * (a + b)
    r = (a - b) / (a + b)
    near = tf.abs(r) < SERIES_BELOW
    far_r = tf.where(near, tf.fill(tf.shape(r), tf.constant(0.5, r.dtype)), r)
    ath = tf.atanh(far_r)
    r2 = r * r
    f = tf.where(near, 1.0 - r2 / 3.0 - 4.0 * r2 * r2 / 45.0 - 44.0 * r2 ** 3 / 945.0, far_r / ath)
    mean = half * f
    heat = nominal * tf.pow(mean / 50.0, exponent)

    def grad(up):
        slope = tf.where(near, -r * (2.0 / 3.0 + 16.0 * r2 / 45.0 + 264.0 * r2 * r2 / 945.0),
                         (ath - far_r / (1.0 - far_r * far_r)) / (ath * ath))
        d_mean = up * heat * exponent / mean
        d_a = d_mean * (0.5 * f + slope * b / (a + b))
        d_b = d_mean * (0.5 * f - slope * a / (a + b))
        return (_fit(d_a, supply), _fit(d_b, back), _fit(-d_a - d_b, room),
                _fit(up * heat / nominal, nominal), _fit(up * heat * tf.math.log(mean / 50.0), exponent))

    return heat, grad


def logbook_misfit(params, book):
    """Half the squared misfit of flown water, by refuge and season."""
    flown, left = rain_tank_season(book["rain"], book["guests"], book["frozen"], params["first"],
                                   book["roof"], params["per_guest"], params["capacity"])
    miss = tf.reduce_sum(flown, 0) - book["flown"]
    return 0.5 * (tf.reduce_sum(tf.square(miss)) + tf.reduce_sum(tf.square(left - book["left"])))


def main():
    rain = tf.constant([[12.0, 0.0], [0.0, 3.0], [30.0, 8.0]])
    guests = tf.constant([[20.0, 45.0], [31.0, 52.0], [4.0, 60.0]])
    flown, left = rain_tank_season(rain, guests, rain > 20.0, tf.constant([500.0, 900.0]), tf.constant(80.0),
                                   tf.constant(25.0), tf.constant(1500.0))
    print("flown", flown.numpy(), "left", left.numpy())
    print("heat", radiator_heat(tf.constant([[70.0], [45.0]]), tf.constant([[55.0], [45.0]]), tf.constant(18.0),
                                tf.constant([1200.0, 800.0]), tf.constant(NOMINAL_EXPONENT)).numpy())


if __name__ == "__main__":
    main()
