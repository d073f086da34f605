"""Logistic regression without a regularizer to its least loss, by L-BFGS in plain Python: the yardstick of a training loss.

Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5, with Armijo's rule for the step."""
import math
from collections import Counter

PAIRS = 10  # of steps and differences of gradients that are kept


def dot(a, b):
    return sum(map(float.__mul__, a, b))


class Logistic:
    """Mean loss and gradient over rows of (is it 1?, its indices): a weight for each index, and at 0 a bias."""

    def __init__(self, rows):
        counts = Counter((tuple(sorted(x)), y) for y, x in rows)  # equal rows are computed once
        self.n = sum(counts.values())
        self.groups = [(x, counts[x, True], counts[x, False]) for x in dict.fromkeys(x for x, _ in counts)]
        self.size = 1 + max(max(x, default=0) for x, _, _ in self.groups)

    def __call__(self, w):
        gradient, loss = [0.0] * self.size, 0.0
        for x, ones, zeros in self.groups:
            z = w[0]
            for k in x:
                z += w[k]
            e = math.exp(-abs(z))
            p = (1 if z > 0 else e) / (1 + e)
            loss += (ones + zeros) * (max(z, 0) + math.log1p(e)) - ones * z
            d = (ones + zeros) * p - ones
            gradient[0] += d
            for k in x:
                gradient[k] += d
        return loss / self.n, [g / self.n for g in gradient]


def direction(gradient, pairs):
    """The inverse Hessian that the pairs say, times the gradient."""
    q, alphas = gradient[:], []
    for s, y, sy in reversed(pairs):
        a = dot(s, q) / sy
        q = [qi - a * yi for qi, yi in zip(q, y)]
        alphas.append(a)
    if pairs:
        _, y, sy = pairs[-1]
        scale = sy / dot(y, y)
        q = [scale * qi for qi in q]
    for (s, y, sy), a in zip(pairs, reversed(alphas)):
        b = a - dot(y, q) / sy
        q = [qi + b * si for qi, si in zip(q, s)]
    return q


def descend(function, w, loss, gradient, d):
    """Half as far until the loss falls by a part of what the slope says."""
    slope, step = dot(gradient, d), 1.0
    while step > 1e-10:
        to = [wi - step * di for wi, di in zip(w, d)]
        there, g = function(to)
        if there <= loss - 1e-4 * step * slope:
            return to, there, g
        step /= 2
    return w, loss, gradient


def least(function, gain=5e-5, every=10, most=1000):
    """The least loss that is found: `every` steps more would gain less than `gain` of it."""
    w = [0.0] * function.size
    loss, gradient = function(w)
    pairs, before = [], math.inf
    for i in range(most):
        to, there, g = descend(function, w, loss, gradient, direction(gradient, pairs))
        s, y = ([a - b for a, b in zip(*p)] for p in ((to, w), (g, gradient)))
        if dot(s, y) > 0:
            pairs = [*pairs, (s, y, dot(s, y))][-PAIRS:]
        w, loss, gradient = to, there, g
        if i % every == every - 1:
            if before - loss < gain * loss:
                return loss
            before = loss
    raise AssertionError(f"no least loss after {most} steps: {loss}")
