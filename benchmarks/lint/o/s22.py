import numpy as np


class PotassiumGate:
    """Hodgkin-Huxley rate functions, v in mV."""

    def alpha_n(self, v):
        return 0.01 * (v + 55.0) / (1.0 - np.exp(-(v + 55.0) / 10.0))

    def beta_n(self, v):
        return 0.125 * np.exp(-(v + 65.0) / 80.0)

    def alpha_m(self, v):
        return 0.1 * (v + 40.0) / (1.0 - np.exp(-(v + 40.0) / 10.0))

    def steady_state(self, v_grid):
        a, b = self.alpha_n(v_grid), self.beta_n(v_grid)
        return a / (a + b)
