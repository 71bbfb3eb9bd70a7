#!/usr/bin/env python3
"""Writes tests/data/probe_fit.json: losses, logits and gradients of small probes, by PyTorch in float64.

    pip install torch
    scripts/make_fit_cases.py > tests/data/probe_fit.json

Parameters lie in one vector in the order of the probe's tensors: norm weight and bias, proj weight and bias, attn_query,
head.0, head.2, head.4 (weight, then bias). Rows are normed before they enter, as the layer norm does.
"""
import json
import torch

torch.manual_seed(20261201)
torch.set_default_dtype(torch.float64)
DIM, WIDTH, H0, H2 = 6, 4, 5, 3
SHAPES = [(DIM,), (DIM,), (WIDTH, DIM), (WIDTH,), (WIDTH,), (H0, WIDTH), (H0,), (H2, H0), (H2,), (1, H2), (1,)]


def logit(theta, rows, pooling):
    parts, at = [], 0
    for shape in SHAPES:
        n = torch.Size(shape).numel()
        parts.append(theta[at:at + n].reshape(shape))
        at += n
    g, b, w, c, q, w0, b0, w2, b2, w4, b4 = parts
    p = torch.relu((rows * g + b) @ w.T + c)
    weight = torch.softmax(p @ q / WIDTH ** 0.5, 0) if pooling == "attention" else torch.full((len(rows),), 1 / len(rows))
    u = weight @ p
    return (w4 @ torch.relu(w2 @ torch.relu(w0 @ u + b0) + b2) + b4)[0]


cases = []
for pooling in ("attention", "mean"):
    theta = torch.randn(sum(torch.Size(s).numel() for s in SHAPES)).requires_grad_()
    counts, wrong = [3, 1, 4, 2, 2], [True, False, True, False, False]
    rows = [torch.nn.functional.layer_norm(torch.randn(n, DIM), (DIM,)) for n in counts]
    z = torch.stack([logit(theta, r, pooling) for r in rows])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, torch.tensor(wrong, dtype=torch.float64), reduction="sum")
    loss.backward()
    cases.append(dict(pooling=pooling, dim=DIM, width=WIDTH, head=[H0, H2], counts=counts, wrong=wrong,
                      rows=torch.cat(rows).flatten().tolist(), theta=theta.tolist(), z=z.tolist(), loss=loss.item(),
                      gradient=theta.grad.tolist()))
print(json.dumps(cases))
