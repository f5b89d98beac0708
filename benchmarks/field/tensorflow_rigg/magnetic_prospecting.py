"""Total-field magnetics for drone and airborne surveys (nT, metres, A m^2)."""
import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

CM = 100.0  # mu0 / 4 pi in nT m^3 / (A m^2)


@dataclass(frozen=True)
class MainField:
    inclination: float  # degrees, positive down
    declination: float  # degrees, clockwise from north

    def unit(self):
        """North, east, down components."""
        i, d = math.radians(self.inclination), math.radians(self.declination)
        return np.array([math.cos(i) * math.cos(d), math.cos(i) * math.sin(d), math.sin(i)])


def dipole_anomaly(field):
    """Forward operator: anomaly at [S, 3] stations of [D, 3] dipoles with moments [D, 3].

    The anomaly is the projection of the dipoles' induction on the direction of
    ``field`` (a MainField). No station may coincide with a dipole.
    """
    direction = field.unit()

    @tf.custom_gradient
    def dipole_tmi(stations, sources, moments):
        f = tf.constant(direction, dtype=stations.dtype)
        r = stations[:, tf.newaxis, :] - sources[tf.newaxis, :, :]
        r2 = tf.reduce_sum(r * r, axis=-1)
        inv3 = tf.math.pow(r2, -1.5)
        inv5 = inv3 / r2
        mr = tf.einsum("sdk,dk->sd", r, moments)
        fr = tf.einsum("sdk,k->sd", r, f)
        mf = tf.einsum("dk,k->d", moments, f)
        tmi = CM * tf.reduce_sum(3.0 * mr * fr * inv5 - mf[tf.newaxis, :] * inv3, axis=1)

        def grad(upstream):
            u = CM * upstream[:, tf.newaxis]
            along_r = 3.0 * mf * inv5 - 15.0 * mr * fr * inv5 / r2
            cross = fr[..., tf.newaxis] * moments + mr[..., tf.newaxis] * f
            d_r = u[..., tf.newaxis] * (3.0 * inv5[..., tf.newaxis] * cross
                                        + along_r[..., tf.newaxis] * r)
            d_moments = (tf.einsum("sd,sdk->dk", 3.0 * u * fr * inv5, r)
                         - tf.reduce_sum(u * inv3, axis=0)[:, tf.newaxis] * f)
            return tf.reduce_sum(d_r, axis=1), -tf.reduce_sum(d_r, axis=0), d_moments

        return tmi, grad

    return dipole_tmi


def _radial_wavenumber(ny, nx, dx, dy):
    ky = 2.0 * np.pi * np.fft.fftfreq(ny, dy)
    kx = 2.0 * np.pi * np.fft.fftfreq(nx, dx)
    return np.hypot(ky[:, None], kx[None, :])


def make_upward_continue(spacing):
    """Continue gridded [..., ny, nx] anomalies upwards by a (scalar) height.

    spacing is (dy, dx), in metres.
    """
    dy, dx = spacing

    @tf.custom_gradient
    def upward_continue(grid, height):
        ctype = tf.complex128 if grid.dtype == tf.float64 else tf.complex64
        ny, nx = grid.shape[-2], grid.shape[-1]

        def filtered(x, response):
            spec = tf.signal.fft2d(tf.cast(x, ctype))
            return tf.math.real(tf.signal.ifft2d(spec * tf.cast(response, ctype)))

        k = tf.constant(_radial_wavenumber(ny, nx, dx=dx, dy=dy), dtype=grid.dtype)

        def grad(upstream):
            # cheap to rebuild, saves keeping an ny x nx table per survey block
            k = tf.constant(_radial_wavenumber(ny, nx, *spacing), dtype=grid.dtype)
            response = tf.exp(-k * height)
            d_grid = filtered(upstream, response)
            d_height = -tf.reduce_sum(grid * filtered(upstream, k * response))
            return d_grid, d_height

        return filtered(grid, tf.exp(-k * height)), grad

    return upward_continue


class HeadingCompensator(tf.Module):
    """Permanent and induced heading error of each aircraft of a campaign."""

    TERMS = 4

    def __init__(self, num_aircraft, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.coefficients = tf.Variable(tf.zeros([num_aircraft, self.TERMS], dtype))

    @staticmethod
    def _basis(heading):
        return tf.stack([tf.cos(heading), tf.sin(heading),
                         tf.cos(2.0 * heading), tf.sin(2.0 * heading)], axis=-1)

    @staticmethod
    def _basis_slope(heading):
        return tf.stack([-tf.sin(heading), tf.cos(heading),
                         -2.0 * tf.sin(2.0 * heading), 2.0 * tf.cos(2.0 * heading)], axis=-1)

    @classmethod
    def compensate(cls, reading, heading, coefficients, aircraft):
        """reading [N], heading [N] (rad), coefficients [A, 4], aircraft int [N]."""
        index = tf.cast(aircraft, tf.int32)[:, tf.newaxis]

        @tf.custom_gradient
        def heading_correction(reading, heading, coefficients):
            rows = tf.gather_nd(coefficients, index)
            basis = cls._basis(heading)

            def grad(dz):
                d_heading = -dz * tf.reduce_sum(rows * cls._basis_slope(heading), axis=-1)
                d_table = tf.tensor_scatter_nd_update(
                    tf.zeros_like(coefficients), index, -dz[:, tf.newaxis] * basis)
                return dz, d_heading, d_table

            return reading - tf.reduce_sum(rows * basis, axis=-1), grad

        return heading_correction(reading, heading, coefficients)

    def __call__(self, reading, heading, aircraft):
        return self.compensate(reading, heading, tf.convert_to_tensor(self.coefficients), aircraft)
