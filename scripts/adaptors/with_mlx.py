#!/usr/bin/env python3
"""MLX checkpoints through mlx-lm, with the handoff probe if the folder holds one.

    pip install mlx-lm          (on Linux: "mlx[cpu]" mlx-lm)
    handoff run --pipe "python3 scripts/adaptors/with_mlx.py FOLDER" --model-name FOLDER --data gsm8k=test.jsonl --out runs/mlx

Greedy, in the checkpoint's own type (bfloat16 as a rule); with --float32 behind FOLDER in float32, which is what
handoff's own engine computes. The probe reads the output of its decoder layer at the position that predicts each token, the stop token's
included, the first 1024.
"""
import glob
import json
import math
import os
import sys
from pathlib import Path

import mlx.core as mx
from mlx_lm import utils
from mlx_lm.models.cache import make_prompt_cache

import pipe


def read_probe(folder):
    parts = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        for name, value in mx.load(path).items():
            if "handoff_probe." in name:
                parts[name.split("handoff_probe.")[1]] = value.astype(mx.float32)
    return parts


class Tap:
    """A decoder layer that keeps its last output."""

    def __init__(self, layer):
        self.layer = layer
        self.seen = None

    def __call__(self, *args, **kwargs):
        out = self.layer(*args, **kwargs)
        self.seen = out[0] if isinstance(out, tuple) else out
        return out

    def __getattr__(self, name):
        return getattr(self.layer, name)


def confidence(probe, rows, eps):
    x = mx.concatenate(rows[:1024])
    x = (x - x.mean(-1, keepdims=True)) * mx.rsqrt(x.var(-1, keepdims=True) + eps) * probe["norm.weight"] + probe["norm.bias"]
    p = mx.maximum(x @ probe["proj.weight"].T + probe["proj.bias"], 0)
    query = probe.get("attn_query", probe.get("attn_query.weight"))
    u = mx.softmax(p @ query / math.sqrt(query.size)) @ p
    for i in (0, 2):
        u = mx.maximum(probe[f"head.{i}.weight"] @ u + probe[f"head.{i}.bias"], 0)
    z = (probe["head.4.weight"] @ u + probe["head.4.bias"]).item()
    return 1 / (1 + math.exp(z))


def main(folder, float32):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    probe = read_probe(folder)
    # Not strict: the stock model has no place for the probe, nor for code that a checkpoint brings along.
    model, loaded = utils.load_model(Path(folder), strict=False, model_config={"model_file": None})
    tokenizer = utils.load_tokenizer(Path(folder), eos_token_ids=loaded.get("eos_token_id"))
    if float32:
        model.set_dtype(mx.float32)
    layers = model.layers
    tap = None
    if probe:
        tap = Tap(layers[config.get("probe_layer", 28)])
        layers[config.get("probe_layer", 28)] = tap
    stops = set(tokenizer.eos_token_ids)

    def answer(messages, max_tokens):
        turns = [{"role": m["role"], "content": pipe.text_of(m["content"])} for m in messages]
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, enable_thinking=False)
        cache, tokens, rows = make_prompt_cache(model), [], []
        feed = mx.array([ids])
        while len(tokens) < max_tokens:
            logits = model(feed, cache=cache)[0, -1]
            if tap:
                rows.append(tap.seen[0, -1:].astype(mx.float32))
            tokens.append(mx.argmax(logits).item())
            if tokens[-1] in stops:
                break
            feed = mx.array([[tokens[-1]]])
        ended = tokens[-1] in stops
        return {"text": tokenizer.decode(tokens[:-1] if ended else tokens), "finish_reason": "stop" if ended else "length",
                "confidence": confidence(probe, rows, config.get("probe_layer_norm_eps", 1e-5)) if probe else None,
                "prompt_tokens": len(ids), "tokens": len(tokens)}

    pipe.serve(answer)


if __name__ == "__main__":
    main(sys.argv[1], "--float32" in sys.argv[2:])
