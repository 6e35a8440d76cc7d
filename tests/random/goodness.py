"""Whether samples follow a distribution of scipy.stats, with fixed seeds."""

import numpy as np
from scipy import stats

from fx import random

N = 40_000
SEEDS = range(8)


def p_values(sample, test):
    """p values of one test on several seeds, which are uniform if the distribution is right."""
    return [test(np.asarray(sample(random.key(seed))).astype(np.float64)) for seed in SEEDS]


def check(sample, test):
    """Refuse p values that are too small, one alone or all together."""
    found = p_values(sample, test)
    assert min(found) > 1e-4, found
    assert stats.kstest(found, "uniform").pvalue > 1e-3, found


def ks(distribution):
    return lambda x: stats.kstest(x, distribution.cdf).pvalue


def chi2(distribution):
    """A test of counts, with rare values in one class."""

    def test(x):
        x = x.astype(np.int64)
        expected = distribution.pmf(np.arange(x.max() + 1)) * x.size
        counts = np.bincount(x, minlength=expected.size)
        often = expected > 10
        rare = x.size - expected[often].sum()
        observed = np.append(counts[often], counts[~often].sum())
        if rare < 1e-6:
            return stats.chisquare(counts[often], expected[often]).pvalue
        return stats.chisquare(observed, np.append(expected[often], rare)).pvalue

    return test
