"""Running the baths of a hot-spring inn.

The inn has a handful of springs, each with its own flow and temperature, and wooden troughs that lead them to the pools. The
keeper opens and closes slides twice a day; the two functions below say what the water and the guests make of it and can be
differentiated, so that the slides may be set by an optimiser.
"""
from dataclasses import dataclass

import numpy as np
from keras import ops


@dataclass
class Inn:
    ambient: float = 12.0      # of the yard, deg C
    cooling: float = 6.0       # litres per minute that lose their whole warmth; always positive
    cold_width: float = 2.5
    hot_width: float = 1.2


def make_bath_mix(inn: Inn):
    """Temperature of each pool.

    ``bath_mix(slides, flows, temps)``:
        slides  (pools, springs)   opening, 0 to 1
        flows   (..., springs)     litres per minute, not negative
        temps   (..., springs)     at the mouth of the trough
        returns (..., pools)

    Water that trickles in slowly has cooled down when it arrives: the excess over the yard's temperature is multiplied by
    exp(-cooling / inflow). A pool whose slides are all closed is as cold as the yard.
    """
    ambient, cooling = inn.ambient, inn.cooling

    @ops.custom_gradient
    def bath_mix(slides, flows, temps):
        inflow = ops.einsum("ps,...s->...p", slides, flows)
        heat = ops.einsum("ps,...s->...p", slides, flows * (temps - ambient))
        running = inflow > 0
        safe = ops.where(running, inflow, ops.ones_like(inflow))
        kept = ops.where(running, ops.exp(-cooling / safe), ops.zeros_like(inflow))
        excess = heat / safe

        def grad(*args, upstream=None):
            g = args[0] if upstream is None else upstream
            d_heat = g * kept / safe
            d_inflow = g * excess * kept * (cooling / safe - 1.0) / safe
            warm = temps - ambient
            pools, springs = ops.shape(slides)
            by_slide = d_inflow[..., :, None] * flows[..., None, :] + d_heat[..., :, None] * (flows * warm)[..., None, :]
            d_slides = ops.sum(ops.reshape(by_slide, (-1, pools, springs)), axis=0)
            heat_back = ops.einsum("...p,ps->...s", d_heat, slides)
            d_flows = ops.einsum("...p,ps->...s", d_inflow, slides) + heat_back * warm
            return d_slides, d_flows, heat_back * flows

        return ambient + excess * kept, grad

    return bath_mix


def make_guest_comfort(inn: Inn, occupied=None):
    """Comfort of guests over the opening hours.

    `occupied`: flags (hours,), 1 for the hours in which someone bathes; all hours if left out.

    The function takes the temperatures, (guests, hours), and each guest's liking, (guests,). An hour is worth
    exp(-((t - liking) / width)^2), with one width for water that is too cold and another one for too hot; the comfort of a
    guest, (guests,), is the mean worth of the occupied hours.
    """
    flags = None if occupied is None else np.asarray(occupied, dtype="float64")

    def weights_like(temps):
        if flags is None:
            return ops.ones_like(temps)
        return ops.broadcast_to(ops.cast(ops.convert_to_tensor(flags), temps.dtype), ops.shape(temps))

    @ops.custom_gradient
    def guest_comfort(temps, liking):
        off = temps - liking[:, None]
        counted = weights_like(temps)
        width = ops.where(off < 0, inn.cold_width * ops.ones_like(off), inn.hot_width * ops.ones_like(off))
        worth = ops.exp(-ops.square(off / width)) * counted
        comfort = ops.sum(worth, axis=1) / ops.maximum(ops.sum(counted, axis=1), 1.0)

        def grad(*args, upstream=None):
            g = args[0] if upstream is None else upstream
            hours = ops.shape(temps)[1]
            d_temps = -2.0 * off / ops.square(width) * worth * g[:, None] / hours
            return d_temps, -ops.sum(d_temps, axis=1)

        return comfort, grad

    return guest_comfort
