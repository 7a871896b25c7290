"""Student's t, Holm's correction and Fieller's interval for paired differences. Standard library alone.

core/student_t.h has the t of `mxtape sweep`; this is another program's, checked against the same recorded values.
"""
import math
import statistics


def tail(t, freedom):
    """P(|T| >= |t|): the regularized incomplete beta function I_x(freedom / 2, 1 / 2), x = freedom / (freedom + t^2)."""
    x = freedom / (freedom + t * t)
    if x >= 1:
        return 1.0
    a, b = freedom / 2, 0.5
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a, b, x):
    """Lentz's method for the continued fraction of I_x(a, b) (Numerical Recipes, section 6.4)."""
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    out = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            out *= c * d
        if abs(c * d - 1) < 1e-15:
            return out
    raise ArithmeticError(f"no convergence for {a}, {b}, {x}")


def quantile(confidence, freedom):
    """The t with P(|T| <= t) = confidence, by bisection."""
    low, high = 0.0, 1.0
    while tail(high, freedom) > 1 - confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def mean_and_error(values):
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def interval(values, confidence=0.95):
    mean, error = mean_and_error(values)
    half = quantile(confidence, len(values) - 1) * error
    return mean - half, mean + half


def two_sided(values, against=0.0):
    mean, error = mean_and_error(values)
    return tail((mean - against) / error, len(values) - 1)


def equivalence(values, margin):
    """Two one-sided tests (Schuirmann 1987): the larger p, of a mean inside (-margin, margin)."""
    mean, error = mean_and_error(values)
    return tail((margin - abs(mean)) / error, len(values) - 1) / 2


def holm(ps):
    """Holm's step-down p-values, in the order given."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    out, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        out[i] = largest
    return out


def fieller(above, below, confidence=0.95):
    """The interval of mean(above) / mean(below), pairs; None where the denominator is not told from 0."""
    n = len(above)
    t2 = quantile(confidence, n - 1) ** 2
    (a, ea), (b, eb) = mean_and_error(above), mean_and_error(below)
    both = sum((x - a) * (y - b) for x, y in zip(above, below)) / (n * (n - 1))
    square, product = b * b - t2 * eb * eb, a * b - t2 * both
    if square <= 0:
        return None
    root = math.sqrt(product * product - square * (a * a - t2 * ea * ea))
    return (product - root) / square, (product + root) / square
