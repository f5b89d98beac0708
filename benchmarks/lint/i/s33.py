import numpy as np
from scipy import special


class ProbitRegression:
    def __init__(self, ridge=1e-2):
        self.ridge = ridge

    def objective(self, coef, design, labels):
        margin = (2 * labels - 1) * (design @ coef)
        tail = special.ndtr(margin)
        loglik = np.log(tail).sum()
        return self.ridge * coef @ coef - loglik
