#!/usr/bin/env python3
"""The work of bench_stats.c in numpy, scipy and scikit-learn, on the same records.

    bench_stats.py FILE ROWS

Prints "NAME milliseconds check" a line; `check` lets scripts/bench-stats see that both computed the same.
The bootstrap runs some resamples and is scaled to 10,000 of 12 hold-outs of 5,000 rows, in two forms: calling
roc_auc_score for each resample, and counting in numpy over rows that were ranked once.
"""
import sys
import time

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

N_HOLDOUTS, HOLDOUT_ROWS, N_RESAMPLES = 12, 5000, 10000


def read(path, n):
    with open(path, "rb") as f:
        confidence, entropy = np.fromfile(f, "f8", n), np.fromfile(f, "f8", n)
        local, reference = np.fromfile(f, "u1", n), np.fromfile(f, "u1", n)
    return confidence, entropy, 1 - local, reference


def report(name, seconds, check):
    print(f"{name} {seconds * 1000:.1f} {check:.9f}", flush=True)


def components(score, wrong):
    """Structural components of DeLong by mid-ranks (Sun and Xu 2014)."""
    positive, negative = score[wrong == 1], score[wrong == 0]
    m, n = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))
    v10 = (ranks[:m] - rankdata(positive)) / n
    v01 = 1 - (ranks[m:] - rankdata(negative)) / m
    return v10.mean(), v10, v01


def curve(confidence, local, reference):
    order = np.argsort(confidence, kind="stable")
    c, gain = confidence[order], (reference.astype("f8") - local)[order]
    ends = np.flatnonzero(np.append(c[1:] != c[:-1], True))
    n = len(c)
    metric = np.concatenate([[local.sum()], local.sum() + np.cumsum(gain)[ends]]) / n
    rate = np.concatenate([[0], (ends + 1) / n])
    first = rate[np.argmax(metric >= reference.mean() - 1e-12)]
    return first, np.sum(np.diff(rate) * (metric[1:] + metric[:-1]) / 2)


def main():
    path, n = sys.argv[1], int(sys.argv[2])
    confidence, entropy, wrong, reference = read(path, n)

    t = time.perf_counter()
    auc = roc_auc_score(wrong, -confidence)
    _, v10, v01 = components(-confidence, wrong)
    se = np.sqrt(v10.var(ddof=1) / len(v10) + v01.var(ddof=1) / len(v01))
    ap = average_precision_score(wrong, -confidence)
    report("auroc+delong+auprc", time.perf_counter() - t, auc + se + ap)

    t = time.perf_counter()
    a, a10, a01 = components(-confidence, wrong)
    b, b10, b01 = components(entropy, wrong)
    se = np.sqrt((a10 - b10).var(ddof=1) / len(a10) + (a01 - b01).var(ddof=1) / len(a01))
    report("paired-delong", time.perf_counter() - t, a - b + se)

    t = time.perf_counter()
    first, area = curve(confidence, 1 - wrong, reference)
    report("curve+match+area", time.perf_counter() - t, area + first)

    rng = np.random.default_rng(1)
    score, label = -confidence[:HOLDOUT_ROWS], wrong[:HOLDOUT_ROWS]
    scale = N_HOLDOUTS * N_RESAMPLES
    t = time.perf_counter()
    for _ in range(100):
        rows = rng.integers(0, HOLDOUT_ROWS, HOLDOUT_ROWS)
        roc_auc_score(label[rows], score[rows])
    report("bootstrap-10000x12x5000", (time.perf_counter() - t) / 100 * scale, 0)

    order = np.argsort(score, kind="stable")
    sorted_wrong = label[order]                         # no ties in these scores
    t = time.perf_counter()
    for _ in range(1000):
        count = np.bincount(rng.integers(0, HOLDOUT_ROWS, HOLDOUT_ROWS), minlength=HOLDOUT_ROWS)
        w = count * sorted_wrong
        r = count - w
        (w * (np.cumsum(r) - r / 2)).sum() / (w.sum() * r.sum())
    report("bootstrap-by-counting", (time.perf_counter() - t) / 1000 * scale, 0)


main()
