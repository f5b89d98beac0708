"""Delineation of sundials, and their recovery from photographs.

Used by the regional inventory of painted dials: latitude is known, the wall
declination and the length of the lost gnomon are not.  They are estimated
from the hour lines that are still visible and from the marks of the date
curves, by gradient descent through the usual formulae of gnomonics.

Conventions
-----------
* All angles are radians.
* The hour angle is negative in the morning.
* The wall declination is zero for a wall facing due south and positive
  towards the west.
* Horizontal dial plates have x east and y north with the foot of the nodus
  at the origin.
* Hour lines on a wall are measured from the vertical through the centre.
"""

from collections import namedtuple

import numpy as np
import keras
from keras import ops

OBLIQUITY = np.deg2rad(23.44)
HOUR = np.pi / 12.0
LOWEST_SINE = 0.05            # shadows are drawn down to about 3 degrees

EquationOfTime = namedtuple("EquationOfTime", "cosine sine")

# Minutes; harmonics of the year 1..3.
SPENCER_EOT = EquationOfTime(
    cosine=(0.4281, -3.3491, -0.0855), sine=(-7.3514, -9.3619, -0.3310)
)

SIGNS = {
    "Capricorn": -23.44,
    "Aquarius": -20.15,
    "Pisces": -11.47,
    "Aries": 0.0,
    "Taurus": 11.47,
    "Gemini": 20.15,
    "Cancer": 23.44,
}


def equation_of_time(day, coefficients=SPENCER_EOT):
    """Apparent minus mean time in minutes for day numbers 1..365."""
    turn = 2.0 * np.pi * (np.asarray(day, dtype=float) - 1.0) / 365.0
    total = np.zeros_like(turn)
    for k, (c, s) in enumerate(zip(*coefficients), start=1):
        total = total + c * np.cos(k * turn) + s * np.sin(k * turn)
    return total


def declination_of_day(day):
    """Solar declination, good to a quarter of a degree."""
    turn = 2.0 * np.pi * (np.asarray(day, dtype=float) + 10.0) / 365.24
    return -OBLIQUITY * np.cos(turn)


def hour_angles(first=7.0, last=17.0, step=1.0, dtype="float32"):
    hours = np.arange(first, last + 1e-6, step)
    return ((hours - 12.0) * HOUR).astype(dtype)


def _cotangents(args, upstream):
    if upstream is not None:
        return upstream
    return args[0] if len(args) == 1 else args


class WallDial(keras.layers.Layer):
    """Vertical dials on walls of unknown declination.

    One instance describes a set of dials; latitudes are given, declinations
    are weights, starting from the compass bearing of the façade (or from due
    south).
    """

    def __init__(self, latitudes, facade=None, **kwargs):
        super().__init__(**kwargs)
        self.latitudes = np.asarray(latitudes, dtype="float32")
        if facade is None:
            facade = np.zeros_like(self.latitudes)
        self.facade = np.asarray(facade, dtype="float32")
        self._lines = self._build_lines()

    def build(self, input_shape=None):
        self.declination = self.add_weight(
            name="declination",
            shape=self.latitudes.shape,
            initializer=lambda shape, dtype=None: ops.cast(self.facade, dtype),
        )

    @staticmethod
    def _build_lines():
        @keras.ops.custom_gradient
        def wall_hour_lines(latitude, declination, hour_angle):
            """Angle of every hour line from the vertical, (dials, hours).

            Args:
                latitude: (dials,)
                declination: (dials,), of the wall
                hour_angle: (hours,)
            """
            sin_l = ops.expand_dims(ops.sin(latitude), 1)
            cos_l = ops.expand_dims(ops.cos(latitude), 1)
            sin_w = ops.expand_dims(ops.sin(declination), 1)
            cos_w = ops.expand_dims(ops.cos(declination), 1)
            sin_h = ops.expand_dims(ops.sin(hour_angle), 0)
            cos_h = ops.expand_dims(ops.cos(hour_angle), 0)

            across = cos_l * sin_h
            down = cos_w * cos_h + sin_w * sin_l * sin_h
            angle = ops.arctan2(across, down)

            def grad(*args, upstream=None):
                up = _cotangents(args, upstream)
                radius = ops.square(across) + ops.square(down)
                d_across = up * down / radius
                d_down = -up * across / radius
                d_latitude = ops.sum(d_across * (-sin_l * sin_h), axis=1)
                d_declination = ops.sum(
                    d_down * (cos_w * sin_l * sin_h - sin_w * cos_h), axis=1
                )
                d_hour = ops.sum(
                    d_across * cos_l * cos_h
                    + d_down * (sin_w * sin_l * cos_h - cos_w * sin_h),
                    axis=0,
                )
                return d_latitude, d_declination, d_hour

            return angle, grad

        return wall_hour_lines

    def call(self, hour_angle):
        wall = self.declination
        folded = ops.arctan2(ops.sin(wall), ops.cos(wall))
        return self._lines(ops.convert_to_tensor(self.latitudes), folded, hour_angle)

    def substyle(self):
        """Angle of the substyle and height of the style over the wall."""
        lat = ops.convert_to_tensor(self.latitudes)
        wall = ops.convert_to_tensor(self.declination)
        distance = ops.arctan2(ops.sin(wall), ops.tan(lat))
        height = ops.arcsin(ops.cos(lat) * ops.cos(wall))
        return distance, height


@keras.ops.custom_gradient
def nodus_shadow(latitude, height, declination, hour_angle):
    """Tip of the shadow of a nodus on a horizontal plate.

    Parameters
    ----------
    latitude : array, shape (plates,)
    height : array, shape (plates,)
        Height of the nodus above the plate; the shadow is in the same unit.
    declination : array, shape (dates,)
        Declination of the sun.
    hour_angle : array, shape (hours,)

    Returns
    -------
    east, north : arrays, shape (plates, dates, hours)
        Zero when the sun is below the horizon or nearly so.
    """
    sin_l = ops.reshape(ops.sin(latitude), (-1, 1, 1))
    cos_l = ops.reshape(ops.cos(latitude), (-1, 1, 1))
    sin_d = ops.reshape(ops.sin(declination), (1, -1, 1))
    cos_d = ops.reshape(ops.cos(declination), (1, -1, 1))
    sin_h = ops.reshape(ops.sin(hour_angle), (1, 1, -1))
    cos_h = ops.reshape(ops.cos(hour_angle), (1, 1, -1))
    stem = ops.reshape(height, (-1, 1, 1))

    up = sin_l * sin_d + cos_l * cos_d * cos_h
    westward = cos_d * sin_h * ops.ones_like(sin_l)
    southward = sin_l * cos_d * cos_h - cos_l * sin_d
    lit = ops.greater(up, LOWEST_SINE)
    safe_up = ops.where(lit, up, ops.ones_like(up))
    zero = ops.zeros_like(up)
    east = ops.where(lit, westward / safe_up, zero)
    north = ops.where(lit, southward / safe_up, zero)

    def grad(*args, upstream=None):
        d_east, d_north = _cotangents(args, upstream)
        d_east = ops.where(lit, d_east, zero)
        d_north = ops.where(lit, d_north, zero)

        d_height = ops.sum(d_east * east + d_north * north, axis=(1, 2))
        g_west = stem * d_east / safe_up
        g_south = stem * d_north / safe_up
        g_up = -(g_west * east + g_south * north)

        d_latitude = ops.sum(
            g_south * (cos_l * cos_d * cos_h + sin_l * sin_d)
            + g_up * (cos_l * sin_d - sin_l * cos_d * cos_h),
            axis=(1, 2),
        )
        d_declination = ops.sum(
            -g_west * sin_d * sin_h
            - g_south * (sin_l * sin_d * cos_h + cos_l * cos_d)
            + g_up * (sin_l * cos_d - cos_l * sin_d * cos_h),
            axis=(0, 2),
        )
        d_hour = ops.sum(
            g_west * cos_d * cos_h
            - g_south * sin_l * cos_d * sin_h
            - g_up * cos_l * cos_d * sin_h,
            axis=(0, 1),
        )
        return d_latitude, d_height, d_declination, d_hour

    return (stem * east, stem * north), grad


def date_curves(latitude, height, signs=SIGNS, hours=None):
    """The seven zodiac curves of a horizontal plate, for drawing."""
    hours = hour_angles(6.0, 18.0, 0.25) if hours is None else hours
    declinations = np.deg2rad(np.array(list(signs.values()), "float32"))
    east, north = nodus_shadow(
        ops.convert_to_tensor(np.array([latitude], "float32")),
        ops.convert_to_tensor(np.array([height], "float32")),
        ops.convert_to_tensor(declinations),
        ops.convert_to_tensor(hours),
    )
    return dict(zip(signs, zip(np.asarray(east)[0], np.asarray(north)[0])))


class PlatePhoto:
    """Marks read from the rectified photograph of one horizontal plate."""

    def __init__(self, declinations, hour_angle, east, north, visible):
        self.declinations = ops.convert_to_tensor(declinations)
        self.hour_angle = ops.convert_to_tensor(hour_angle)
        self.east = ops.convert_to_tensor(east)
        self.north = ops.convert_to_tensor(north)
        self.visible = ops.cast(visible, self.east.dtype)

    def misfit(self, latitude, height):
        east, north = nodus_shadow(
            latitude, height, self.declinations, self.hour_angle
        )
        squared = ops.square(east - self.east) + ops.square(north - self.north)
        return ops.sum(self.visible * squared) / ops.sum(self.visible)


def line_misfit(predicted, measured, visible):
    """Mean of 1 - cos between predicted and measured hour lines."""
    miss = 1.0 - ops.cos(predicted - measured)
    return ops.sum(visible * miss) / ops.maximum(ops.sum(visible), 1.0)


def recover_declination(dial, hours, measured, visible, steps=60, rate=0.5):
    """Descend on the wall declinations (TensorFlow backend only)."""
    import tensorflow as tf

    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = line_misfit(dial(hours), measured, visible)
        (g,) = tape.gradient(loss, [dial.declination.value])
        dial.declination.assign(dial.declination - rate * g)
    return np.rad2deg(np.asarray(dial.declination)), float(loss)


if __name__ == "__main__":
    lat = np.deg2rad([44.7, 45.1])
    hours = ops.convert_to_tensor(hour_angles(9.0, 15.0))
    truth = WallDial(lat, facade=np.deg2rad([18.0, -31.0]))
    readings = truth(hours)
    start = WallDial(lat)
    start(hours)
    seen = np.ones(readings.shape, "float32")
    seen[1, :2] = 0.0
    print(recover_declination(start, hours, readings, ops.convert_to_tensor(seen)))
    curves = date_curves(lat[0], 10.0)
    print({k: float(np.max(v[0])) for k, v in curves.items()})
