#!/usr/bin/env python3
"""Writes a GGUF file of Gemma 4 E2B's sizes with random weights, to measure speed and memory without the real ones.

    scripts/make_random_gguf.py Q4_0 /tmp/e2b-q4_0.gguf [--layers 35]

TYPE is Q4_0, Q4_K_M, Q8_0 or BF16; which tensors get which type follows llama-quantize's defaults. Codes are uniform,
scales such that weights have mean 0 and a standard deviation of about 0.02. In the tokenizer every character is a
token; its list of merges is as long as the real one and never applies. Needs numpy. Sizes: the config of
google/gemma-4-E2B-it; file format: ggml's gguf.md; names: llama.cpp's gemma4 architecture."""
import argparse
import struct

import numpy as np

HIDDEN, MLP, PLE, VOCAB, HEADS, HEAD, GLOBAL_HEAD, SHARED = 1536, 6144, 256, 262144, 8, 256, 512, 20
MERGES, STD, ALIGNMENT = 514906, 0.02, 32
# ggml's numbers of types, weights in a block, bytes of a block
TYPES = {"F32": (0, 1, 4), "BF16": (30, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144),
         "Q6_K": (14, 256, 210)}
FILE_TYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "BF16": 32}


def halves(x):
    """float16 values as two bytes each."""
    return np.asarray(x, np.float16).view(np.uint8).reshape(-1, 2)


def random_blocks(kind, n, rng):
    """n blocks as bytes [n, bytes of a block]."""
    blocks = rng.integers(0, 256, (n, TYPES[kind][2]), dtype=np.uint8)
    scale = STD * rng.uniform(0.8, 1.2, n)
    if kind == "F32":
        return rng.normal(1, 0.1, n).astype("<f4").view(np.uint8).reshape(n, 4)
    if kind == "BF16":
        wide = rng.normal(0, STD, n).astype("<f4").view("<u4")
        return (wide >> 16).astype("<u2").view(np.uint8).reshape(n, 2)
    if kind == "Q4_0":                  # d, 16 bytes of codes; weight d (code - 8)
        blocks[:, :2] = halves(scale / 4.6)
    elif kind == "Q8_0":                # d, 32 signed codes
        blocks[:, :2] = halves(scale / 73)
        blocks[:, 2:][blocks[:, 2:] == 128] = 0
    elif kind == "Q6_K":                # low and high bits, 16 signed scales, d; weight d scale (code - 32)
        scales = rng.integers(32, 128, (n, 16)) * rng.choice([-1, 1], (n, 16))
        blocks[:, 192:208] = scales.astype(np.int8).view(np.uint8)
        blocks[:, 208:] = halves(scale / (18.5 * 85))
    elif kind == "Q4_K":                # d, dmin, 12 bytes of 6-bit scales and minima, codes: d scale code - dmin min
        s = rng.integers(20, 64, (n, 8)).astype(np.uint8)       # minima like scales, so that the mean is 0
        blocks[:, 0:2] = halves(scale / (4.6 * 42))
        blocks[:, 2:4] = halves(scale / (4.6 * 42) * 7.5)
        blocks[:, 4:8] = blocks[:, 8:12] = (s[:, :4] & 63) | (s[:, 4:] >> 4) << 6
        blocks[:, 12:16] = (s[:, 4:] & 15) | (s[:, 4:] & 15) << 4
    return blocks


def tensors(kind, layers):
    """(name, shape outermost first, type) of every tensor."""
    base, owners = {"Q4_K_M": "Q4_K"}.get(kind, kind), layers - min(SHARED, layers * SHARED // 35)
    table = "Q6_K" if kind in ("Q4_0", "Q4_K_M") else base

    def more_bits(i, n):
        return "Q6_K" if kind == "Q4_K_M" and (i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2) else base

    yield "token_embd.weight", (VOCAB, HIDDEN), table
    yield "per_layer_token_embd.weight", (VOCAB, PLE * layers), table
    yield "per_layer_model_proj.weight", (PLE * layers, HIDDEN), "BF16"
    yield "per_layer_proj_norm.weight", (PLE,), "F32"
    yield "output_norm.weight", (HIDDEN,), "F32"
    yield "rope_freqs.weight", (GLOBAL_HEAD // 2,), "rope"
    for i in range(layers):
        p, d, mlp = f"blk.{i}.", HEAD if is_sliding(i, layers) else GLOBAL_HEAD, MLP if i < owners else 2 * MLP
        yield p + "attn_q.weight", (HEADS * d, HIDDEN), base
        yield p + "attn_output.weight", (HIDDEN, HEADS * d), base
        yield p + "attn_q_norm.weight", (d,), "F32"
        if i < owners:
            yield p + "attn_k.weight", (d, HIDDEN), base
            yield p + "attn_v.weight", (d, HIDDEN), more_bits(i, owners)
            yield p + "attn_k_norm.weight", (d,), "F32"
        yield p + "ffn_gate.weight", (mlp, HIDDEN), base
        yield p + "ffn_up.weight", (mlp, HIDDEN), base
        yield p + "ffn_down.weight", (HIDDEN, mlp), more_bits(i, layers)
        yield p + "inp_gate.weight", (PLE, HIDDEN), base
        yield p + "proj.weight", (HIDDEN, PLE), base
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"):
            yield p + norm + ".weight", (HIDDEN,), "F32"
        yield p + "layer_output_scale.weight", (1,), "F32"


def is_sliding(i, layers):
    return i % 5 != 4 and i != layers - 1


# ---- metadata: a type's number and the bytes of a value

def u32(v):
    return 4, struct.pack("<I", v)


def f32(v):
    return 6, struct.pack("<f", v)


def flag(v):
    return 7, struct.pack("<?", v)


def text(v):
    raw = v.encode()
    return 8, struct.pack("<Q", len(raw)) + raw


def array(of, values):
    items = [of(v) for v in values]
    return 9, struct.pack("<IQ", items[0][0], len(items)) + b"".join(raw for _, raw in items)


TEMPLATE = ("{{ bos_token }}{% for m in messages %}<|turn>"
            "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
            "{% if m['content'] is string %}{{ m['content'] }}"
            "{% else %}{% for part in m['content'] %}{{ part['text'] }}{% endfor %}{% endif %}<turn|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}")


def vocabulary():
    tokens, types = [f"tok{i:06d}" for i in range(VOCAB)], [1] * VOCAB
    special = {0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>", 98: "<|think|>", 100: "<|channel>",
               101: "<channel|>", 105: "<|turn>", 106: "<turn|>", 255999: "<|image>", 256000: "<|audio>",
               258880: "<|image|>", 258881: "<|audio|>", 258882: "<image|>", 258883: "<audio|>", 258884: "<|video|>"}
    for i, s in special.items():
        tokens[i], types[i] = s, 3
    for b in range(256):
        tokens[238 + b], types[238 + b] = f"<0x{b:02X}>", 6
    tokens[107] = "\n"
    for i, c in enumerate("\u2581" + "".join(map(chr, range(33, 127)))):
        tokens[1000 + i] = c
    return tokens, types


def metadata(kind, layers):
    tokens, types = vocabulary()
    owners = layers - min(SHARED, layers * SHARED // 35)
    a = "gemma4."
    yield "general.architecture", text("gemma4")
    yield "general.name", text(f"random weights of Gemma 4 E2B's sizes, {kind}")
    yield "general.file_type", u32(FILE_TYPES[kind])
    yield "general.quantization_version", u32(2)
    yield a + "block_count", u32(layers)
    yield a + "context_length", u32(131072)
    yield a + "embedding_length", u32(HIDDEN)
    yield a + "embedding_length_per_layer_input", u32(PLE)
    yield a + "feed_forward_length", array(u32, [MLP if i < owners else 2 * MLP for i in range(layers)])
    yield a + "attention.head_count", u32(HEADS)
    yield a + "attention.head_count_kv", u32(1)
    yield a + "attention.key_length", u32(GLOBAL_HEAD)
    yield a + "attention.value_length", u32(GLOBAL_HEAD)
    yield a + "attention.key_length_swa", u32(HEAD)
    yield a + "attention.value_length_swa", u32(HEAD)
    yield a + "attention.layer_norm_rms_epsilon", f32(1e-6)
    yield a + "attention.sliding_window", u32(512)
    yield a + "attention.sliding_window_pattern", array(flag, [is_sliding(i, layers) for i in range(layers)])
    yield a + "attention.shared_kv_layers", u32(layers - owners)
    yield a + "rope.freq_base", f32(1e6)
    yield a + "rope.freq_base_swa", f32(1e4)
    yield a + "rope.dimension_count", u32(GLOBAL_HEAD)
    yield a + "rope.dimension_count_swa", u32(HEAD)
    yield a + "final_logit_softcapping", f32(30)
    yield "tokenizer.ggml.model", text("gemma4")
    yield "tokenizer.ggml.tokens", array(text, tokens)
    yield "tokenizer.ggml.scores", array(f32, [-1000.0] * VOCAB)
    yield "tokenizer.ggml.token_type", array(lambda v: (5, struct.pack("<i", v)), types)
    yield "tokenizer.ggml.merges", array(text, [f"x{i:x} y{i * 2654435761 % 2 ** 24:x}" for i in range(MERGES)])
    for name, i in (("bos", 2), ("eos", 1), ("unknown", 3), ("padding", 0), ("mask", 4)):
        yield f"tokenizer.ggml.{name}_token_id", u32(i)
    yield "tokenizer.ggml.add_space_prefix", flag(False)
    yield "tokenizer.ggml.add_bos_token", flag(True)
    yield "tokenizer.chat_template", text(TEMPLATE)


def n_bytes(shape, kind):
    _, weights, size = TYPES[kind]
    return int(np.prod(shape, dtype=np.int64)) // weights * size


def write(path, kind, layers):
    rng = np.random.default_rng(1)
    pools, offset = {}, 0
    listed, keys = list(tensors(kind, layers)), list(metadata(kind, layers))
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(keys)))
        for key, (number, raw) in keys:
            f.write(text(key)[1] + struct.pack("<I", number) + raw)
        for name, shape, t in listed:
            t = "F32" if t == "rope" else t
            f.write(text(name)[1] + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) +
                    struct.pack("<IQ", TYPES[t][0], offset))
            offset += -(-n_bytes(shape, t) // ALIGNMENT) * ALIGNMENT
        f.write(bytes(-f.tell() % ALIGNMENT))
        for name, shape, t in listed:
            if t == "rope":             # the full layers turn an eighth of their pairs
                pairs = np.full(shape, 1e30, "<f4")
                pairs[:GLOBAL_HEAD // 8] = 1
                f.write(pairs.tobytes())
                continue
            if t not in pools:          # one pool a type, read cyclically; a prime, so that rows do not line up
                pools[t] = random_blocks(t, 65521 * (16 if TYPES[t][1] == 1 else 1), rng).tobytes()
            left = n_bytes(shape, t)
            at = int(rng.integers(0, len(pools[t]) // TYPES[t][2])) * TYPES[t][2]
            while left:
                piece = pools[t][at:at + left]
                f.write(piece)
                left -= len(piece)
                at = 0
            f.write(bytes(-f.tell() % ALIGNMENT))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("type", choices=FILE_TYPES)
    arguments.add_argument("out")
    arguments.add_argument("--layers", type=int, default=35)
    a = arguments.parse_args()
    write(a.out, a.type, a.layers)


if __name__ == "__main__":
    main()
