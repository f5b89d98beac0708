# Spruce bark beetle: flight between stands and brood within them.
from dataclasses import dataclass
import math

import keras
import numpy as np
from keras import ops


@dataclass(frozen=True)
class Landscape:
    centre: np.ndarray     # (stands, 2) km
    area: np.ndarray       # (stands,) ha of susceptible spruce
    windthrow: np.ndarray  # (years, stands) m3

    @property
    def distance(self):
        d = self.centre[:, None, :] - self.centre[None, :, :]
        return np.sqrt((d * d).sum(-1))

    def overlap(self, reach=1.5):
        """Row j: how far the broods of the other stands crowd those of stand j."""
        w = np.exp(-self.distance / reach) * self.area[None, :] / self.area[:, None]
        return np.where(self.distance > 3 * reach, 0.0, w)


def make_flight(distance, area, shape=0.7):
    """Beetles landing in each stand.

    distance (to, from); area (to,); shape of the exponential-power kernel
    emigrants (years, from), log_reach (from,)  ->  (years, to)
    """
    distance, area = np.asarray(distance), np.asarray(area)
    norm = shape / (2.0 * math.pi * math.gamma(2.0 / shape))

    @ops.custom_gradient
    def flight(emigrants, log_reach):
        d = ops.convert_to_tensor(distance, dtype=emigrants.dtype)
        ha = ops.convert_to_tensor(area, dtype=emigrants.dtype)
        z = (d * ops.exp(-log_reach)) ** shape
        kernel = norm * ops.exp(-z - 2.0 * log_reach)
        per_ha = ops.einsum("yi,ji->yj", emigrants, kernel)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_emigrants = ops.einsum("yj,ji->yi", upstream, kernel)
            d_log_kernel = kernel * ops.einsum("yj,yi->ji", upstream * ha, emigrants)
            d_reach = ops.sum(d_log_kernel * (shape * z - 2.0), axis=0)
            return d_emigrants, d_reach

        return per_ha * ha, grad

    return flight


def make_brood(overlap=None, lost=None, log=False):
    """Daughters per stand under crowding.

    mothers a / (1 + crowd / k)^c, where crowd is the mothers of the stand itself, or
    ``mothers @ overlap.T`` if overlap (stands, stands) is given.

    lost : bool (years, stands), broods destroyed by felling; they give no daughters
        but crowded the others before
    log : give log(1 + daughters)

    brood(mothers (years, stands) >= 0, log_a (), log_k (stands,), c (stands,))
    """

    @ops.custom_gradient
    def brood(mothers, log_a, log_k, c):
        dtype = mothers.dtype
        if overlap is None:
            crowd = mothers
        else:
            w = ops.convert_to_tensor(overlap, dtype=dtype)
            crowd = ops.einsum("yi,ji->yj", mothers, w)
        stays = ops.ones_like(mothers)
        if lost is not None:
            stays = 1.0 - ops.convert_to_tensor(np.asarray(lost), dtype=dtype)
        load = crowd * ops.exp(-log_k)
        each = stays * ops.exp(log_a - c * ops.log1p(load))
        daughters = mothers * each

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if log:
                upstream = upstream / (1.0 + daughters)
            g = upstream * daughters
            d_load = -g * c / (1.0 + load)
            d_crowd = d_load * ops.exp(-log_k)
            if overlap is not None:
                d_crowd = ops.einsum("yj,ji->yi", d_crowd, w)
            return (
                upstream * each + d_crowd,
                ops.sum(g),
                -ops.sum(d_load * load, axis=0),
                -ops.sum(g * ops.log1p(load), axis=0),
            )

        return (ops.log1p(daughters) if log else daughters), grad

    return brood


class Outbreak(keras.Model):
    """One generation a year, fitted to trap catches (years, stands)."""

    def __init__(self, landscape):
        super().__init__()
        n = len(landscape.area)
        const = keras.initializers.Constant
        self.stands = n
        self.flight = make_flight(landscape.distance, landscape.area)
        self.brood = make_brood(landscape.overlap())
        self.log_reach = self.add_weight(shape=(1,), initializer="zeros", name="log_reach")
        self.log_a = self.add_weight(shape=(), initializer=const(1.5), name="log_a")
        self.log_k = self.add_weight(shape=(n,), initializer=const(5.0), name="log_k")
        self.c = self.add_weight(shape=(1,), initializer="ones", name="c")

    def call(self, mothers):
        spread = lambda v: v + ops.zeros((self.stands,), dtype=v.dtype)
        daughters = self.brood(mothers, 1.0 * self.log_a, spread(self.log_k), spread(self.c))
        return self.flight(daughters, spread(self.log_reach))


def fit(landscape, mothers, catches, epochs=100):
    model = Outbreak(landscape)
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss="poisson")
    model.fit(mothers, catches, batch_size=len(mothers), epochs=epochs, verbose=0)
    return model
