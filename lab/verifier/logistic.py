"""Logistic regression with few features, fitted by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import FloatArray

STEPS = 25
CLOSE = 1e-10


@dataclass(frozen=True)
class Logistic:
    """log-odds = features @ weights (d,) + bias."""

    weights: FloatArray
    bias: float

    def log_odds(self, features: FloatArray) -> FloatArray:
        """Compute the log-odds (n,) of features (n, d)."""
        result: FloatArray = features @ self.weights + self.bias
        return result


def fit_logistic(features: FloatArray, shares: FloatArray, weights: FloatArray, penalty: float) -> Logistic:
    """Fit shares (n,) in [0, 1] of the answer yes by features (n, d), by maximum likelihood.

    weights (n,): how much each row counts. penalty: of half the sum of the squared weights of standardised features;
    it must be above 0. The bias is free.

    >>> fitted = fit_logistic(np.array([[0.0], [1.0]]), np.array([0.25, 0.75]), np.ones(2), penalty=1e-9)
    >>> (1 / (1 + np.exp(-fitted.log_odds(np.array([[0.0], [1.0]]))))).round(4).tolist()
    [0.25, 0.75]
    """
    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    rows = np.column_stack([(features - middle) / spread, np.ones(len(features))])
    ridge = np.diag([penalty] * features.shape[1] + [0.0])
    values = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(-(rows @ values)))
        slope = rows.T @ (weights * (shares - expected)) - ridge @ values
        curvature = (rows * (weights * expected * (1 - expected))[:, None]).T @ rows + ridge
        step = np.linalg.solve(curvature, slope)
        values = values + step
        if np.abs(step).max() < CLOSE:
            break
    plain = values[:-1] / spread
    return Logistic(plain, float(values[-1] - plain @ middle))
