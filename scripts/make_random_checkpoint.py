#!/usr/bin/env python3
"""Writes a text-only hybrid checkpoint of Gemma 4 E2B's sizes with random bf16 weights (9.3 GB), to measure memory
and speed without the real weights. Tokenizer and chat template are taken from another checkpoint folder.

    scripts/make_random_checkpoint.py datasets/mini/checkpoint /tmp/e2b [--layers 35]

Needs numpy. Sizes: the config of google/gemma-4-E2B-it as described in this project's README."""
import argparse
import json
import pathlib
import shutil

import numpy as np

HIDDEN, MLP, PLE, VOCAB, HEADS, HEAD, GLOBAL_HEAD, SHARED = 1536, 6144, 256, 262144, 8, 256, 512, 20


def tensors(layers):
    """(name, shape, type, scale) of every tensor."""
    full = [i % 5 == 4 for i in range(layers)]
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN), "BF16", 0.03
    yield "model.embed_tokens_per_layer.weight", (VOCAB, layers * PLE), "BF16", 0.03
    yield "model.per_layer_model_projection.weight", (layers * PLE, HIDDEN), "BF16", 0.03
    yield "model.per_layer_projection_norm.weight", (PLE,), "BF16", None
    yield "model.norm.weight", (HIDDEN,), "BF16", None
    for i in range(layers):
        p, d = f"model.layers.{i}.", GLOBAL_HEAD if full[i] else HEAD
        mlp = MLP * (2 if i >= layers - SHARED else 1)
        yield p + "self_attn.q_proj.weight", (HEADS * d, HIDDEN), "BF16", 0.02
        yield p + "self_attn.o_proj.weight", (HIDDEN, HEADS * d), "BF16", 0.02
        yield p + "self_attn.q_norm.weight", (d,), "BF16", None
        if i < layers - SHARED:
            yield p + "self_attn.k_proj.weight", (d, HIDDEN), "BF16", 0.02
            yield p + "self_attn.v_proj.weight", (d, HIDDEN), "BF16", 0.02
            yield p + "self_attn.k_norm.weight", (d,), "BF16", None
        yield p + "mlp.gate_proj.weight", (mlp, HIDDEN), "BF16", 0.02
        yield p + "mlp.up_proj.weight", (mlp, HIDDEN), "BF16", 0.02
        yield p + "mlp.down_proj.weight", (HIDDEN, mlp), "BF16", 0.02
        yield p + "per_layer_input_gate.weight", (PLE, HIDDEN), "BF16", 0.02
        yield p + "per_layer_projection.weight", (HIDDEN, PLE), "BF16", 0.02
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm", "post_per_layer_input_norm"):
            yield p + norm + ".weight", (HIDDEN,), "BF16", None
        yield p + "layer_scalar", (1,), "BF16", None
    probe = {"norm.weight": (HIDDEN,), "norm.bias": (HIDDEN,), "proj.weight": (32, HIDDEN), "proj.bias": (32,),
             "attn_query": (32,), "head.0.weight": (128, 32), "head.0.bias": (128,), "head.2.weight": (64, 128),
             "head.2.bias": (64,), "head.4.weight": (1, 64), "head.4.bias": (1,)}
    for name, shape in probe.items():
        yield "handoff_probe." + name, shape, "F32", 0.1


def config(layers):
    kinds = ["full_attention" if i % 5 == 4 else "sliding_attention" for i in range(layers)]
    return {
        "architectures": ["Gemma4E2BItHybridForCausalLM"], "model_type": "gemma4_text", "hidden_size": HIDDEN,
        "num_hidden_layers": layers, "intermediate_size": MLP, "num_attention_heads": HEADS, "num_key_value_heads": 1,
        "head_dim": HEAD, "global_head_dim": GLOBAL_HEAD, "layer_types": kinds, "sliding_window": 512,
        "num_kv_shared_layers": SHARED, "use_double_wide_mlp": True, "hidden_size_per_layer_input": PLE,
        "vocab_size": VOCAB, "vocab_size_per_layer_input": VOCAB, "final_logit_softcapping": 30.0,
        "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True,
        "attention_k_eq_v": False, "enable_moe_block": False, "max_position_embeddings": 131072, "pad_token_id": 0,
        "bos_token_id": 2, "eos_token_id": 1, "probe_layer": 28 * layers // 35,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=35)
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        if (pathlib.Path(args.source) / name).exists():
            shutil.copy(pathlib.Path(args.source) / name, out / name)
    (out / "config.json").write_text(json.dumps(config(args.layers), indent=1))

    rng = np.random.default_rng(1)
    noise = rng.standard_normal(1 << 22).astype(np.float32)
    header, at = {}, 0
    for name, shape, kind, _ in tensors(args.layers):
        size = int(np.prod(shape)) * (2 if kind == "BF16" else 4)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name, shape, kind, scale in tensors(args.layers):
            left = int(np.prod(shape))
            values = np.ones_like(noise) if scale is None else noise * np.float32(scale)
            block = (values.view(np.uint32) >> 16).astype(np.uint16) if kind == "BF16" else values
            while left:
                n = min(left, len(block))
                f.write(block[:n].tobytes())
                left -= n
    print(f"{out}: {at / 1e9:.2f} GB")


main()
