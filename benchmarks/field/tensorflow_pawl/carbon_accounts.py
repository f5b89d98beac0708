"""Carbon accounting of regions: index decomposition and embodied pressure.

``fuel_log_weight`` is the weight of the logarithmic mean Divisia index (LMDI-I),
the usual way of splitting a change in emissions into activity, structure and
intensity.  ``embodied_pressure`` scores a region by what its purchases from
the others drag along.
"""
from keras import ops

NEAR = 0.1  # half log ratio under which the series take over


def _given(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def _half_log_ratio(a, b):
    return 0.5 * (ops.log(a) - ops.log(b))


def _sinh_cosh(u):
    # by exp: ops.sinh and ops.cosh drop to single precision on some backends
    up, down = ops.exp(u), ops.exp(-u)
    return 0.5 * (up - down), 0.5 * (up + down)


def _sinhc(u):
    """sinh(u) / u, smooth through zero."""
    near = ops.abs(u) < NEAR
    safe = ops.where(near, ops.ones_like(u), u)
    u2 = u * u
    series = 1.0 + u2 / 6.0 * (1.0 + u2 / 20.0 * (1.0 + u2 / 42.0))
    return ops.where(near, series, _sinh_cosh(safe)[0] / safe)


def _sinhc_slope(u):
    near = ops.abs(u) < NEAR
    safe = ops.where(near, ops.ones_like(u), u)
    u2 = u * u
    series = u / 3.0 * (1.0 + u2 / 10.0 * (1.0 + u2 / 28.0))
    sinh, cosh = _sinh_cosh(safe)
    full = (cosh - sinh / safe) / safe
    return ops.where(near, series, full)


@ops.custom_gradient
def fuel_log_weight(before, after):
    """Logarithmic mean of the emissions of each fuel in two years.

    ``(after - before) / log(after / before)``, and the common value where both
    years agree.  Both tensors are positive and have the same shape.
    """
    u = _half_log_ratio(after, before)
    root = ops.sqrt(before * after)
    mean = root * _sinhc(u)

    def grad(*args, upstream=None):
        upstream = _given(args, upstream)
        tilt = root * _sinhc_slope(u)
        d_before = upstream * 0.5 * (mean - tilt) / before
        d_after = upstream * 0.5 * (mean + tilt) / after
        return d_before, d_after

    return mean, grad


def split_change(before, after, driver_before, driver_after):
    """Contribution of one driver to the change, summed over fuels (last axis)."""
    weight = fuel_log_weight(before, after)
    return ops.sum(weight * ops.log(driver_after / driver_before), axis=-1)


@ops.custom_gradient
def embodied_pressure(shares, flows):
    """Pressure ``s' F s`` of purchase shares through the supply flows.

    Parameters
    ----------
    shares : (scenarios, regions)
        Purchases of each scenario by region of origin.
    flows : (regions, regions)
        ``flows[i, j]``: tonnes of CO2 that a purchase in i causes in j.

    Returns
    -------
    (scenarios,) pressure of each scenario.
    """
    carried = ops.sum(ops.expand_dims(shares, 1) * flows, axis=-1)
    pressure = ops.sum(shares * carried, axis=-1)

    def grad(*args, upstream=None):
        upstream = ops.expand_dims(_given(args, upstream), -1)
        d_shares = 2.0 * upstream * carried
        d_flows = ops.sum(ops.expand_dims(upstream * shares, 2) * ops.expand_dims(shares, 1), axis=0)
        return d_shares, d_flows

    return pressure, grad


def rank_scenarios(shares, flows):
    """Scenario numbers, the least pressing first."""
    return ops.argsort(embodied_pressure(shares, flows))
