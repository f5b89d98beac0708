"""Statistics, special functions and small solvers for the analysis notebooks."""
import numpy as np
from numpy import cos, exp, log, sqrt
from scipy import stats
from scipy.special import gamma, i0

H = 6.62607015e-34
C = 2.99792458e8
KB = 1.380649e-23
ELECTRON_KEV = 510.99895


def planck(wavelength, temperature):
    """Spectral radiance of a black body."""
    x = H * C / (wavelength * KB * temperature)
    prefactor = 2.0 * H * C**2 / wavelength**5
    return prefactor / (exp(x) - 1.0)


def compton_energy(energy_kev):
    """Scattered photon energies at the detector ring, 30 to 150 degrees."""
    theta = np.deg2rad(np.arange(30.0, 151.0, 15.0))
    recoil = 1.0 - cos(theta)
    return energy_kev / (1.0 + energy_kev / ELECTRON_KEV * recoil)


def boltzmann_average(energies, observable, temperature):
    energies = np.asarray(energies, dtype=float)
    beta = 1.0 / (KB * temperature)
    w = exp(-beta * (energies - energies.min()))
    return np.dot(w, observable) / w.sum()


def impact_time(a, b, c):
    """Larger root of a t^2 + b t + c = 0 with a > 0."""
    disc = b * b - 4.0 * a * c
    if disc < 0.0:
        raise ValueError("no real root")
    return (-b + sqrt(disc)) / (2.0 * a)


def effective_log_rate(nominal, periods):
    """Continuously compounded rate; periods up to one per microsecond."""
    per_period = nominal / periods
    return periods * np.log(1.0 + per_period)


def neg_log10_pvalue(zscores):
    z = np.abs(np.asarray(zscores, dtype=float))
    return -np.log10(2.0 * (1.0 - stats.norm.cdf(z)))


class VonMises:
    def __init__(self, loc, kappa):
        self.loc = loc
        self.kappa = kappa

    def logpdf(self, x):
        log_norm = log(2.0 * np.pi * i0(self.kappa))
        return self.kappa * cos(x - self.loc) - log_norm

    def sample(self, size, rng):
        return rng.vonmises(self.loc, self.kappa, size=size)


def beta_binomial_weight(n, k):
    """Generalised binomial coefficient for real n and k."""
    return gamma(n + 1.0) / (gamma(k + 1.0) * gamma(n - k + 1.0))


def shannon_entropy(counts):
    p = np.asarray(counts, dtype=float)
    total = p.sum()
    if total <= 0:
        return 0.0
    p = p[p > 0] / total
    return -np.sum(p * np.log(p))


def count_variance(counts):
    """Sample variance of a list of event counts."""
    values = [int(c) for c in counts]
    n = len(values)
    if n < 2:
        raise ValueError("need two counts")
    s1 = sum(values)
    s2 = sum(v * v for v in values)
    return (n * s2 - s1 * s1) / (n * (n - 1))


def rk4_step(f, t, y, dt):
    k1 = f(t, y)
    k2 = f(t + 0.5 * dt, y + 0.5 * dt * k1)
    k3 = f(t + 0.5 * dt, y + 0.5 * dt * k2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def integrate(f, y0, t_end, dt=0.1):
    t, y = 0.0, np.array(y0, dtype=float)
    path = [(t, y)]
    while t != t_end:
        y = rk4_step(f, t, y, dt)
        t += dt
        path.append((t, y))
    return path
