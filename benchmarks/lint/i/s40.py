import numpy as np
from scipy import special


class ProbitRegression:
    def __init__(self, ridge=1e-2):
        self.ridge = ridge

    def objective(self, coef, design, labels):
        margin = (2 * labels - 1) * (design @ coef)
        tail = special.log_ndtr(margin)
        loglik = np.sum(tail)
        return self.ridge * coef @ coef - loglik
