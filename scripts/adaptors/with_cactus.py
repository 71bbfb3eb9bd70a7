#!/usr/bin/env python3
"""Cactus bundles through the cactus-compute package.

    pip install cactus-compute
    handoff run --pipe "python3 scripts/adaptors/with_cactus.py BUNDLE" --model-name BUNDLE --suite mini --out runs/cactus

Greedy, never to the cloud. The confidence is the one that the engine returns, to four decimals. With auto_handoff off
some builds do not ask the probe (they return a confidence made of the tokens' margins), so it stays on with a threshold
of 0, below which nothing lies: the probe is asked and everything is kept.
"""
import base64
import os
import sys
import tempfile

from cactus.bindings.cactus import cactus_complete, cactus_init, cactus_reset

import pipe

OPTIONS = {"temperature": 0, "top_p": 1, "top_k": 1, "min_p": 0, "repetition_penalty": 1, "confidence_threshold": 0,
           "auto_handoff": True, "telemetry_enabled": False, "enable_thinking_if_supported": False}


def to_file(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(base64.b64decode(data))
    return path


def message_of(message, folder):
    """Cactus takes the text as one string and pictures and sounds by path."""
    content = message["content"]
    if isinstance(content, str):
        return {"role": message["role"], "content": content}
    said = {"role": message["role"], "content": "".join(p["text"] for p in content if p["type"] == "text")}
    for i, part in enumerate(content):
        if part["type"] == "image_url":
            kind, data = part["image_url"]["url"].split(";base64,", 1)
            said.setdefault("images", []).append(to_file(folder, f"{i}.{kind.split('/')[-1]}", data))
        elif part["type"] == "input_audio":
            sound = part["input_audio"]
            said.setdefault("audio", []).append(to_file(folder, f"{i}.{sound['format']}", sound["data"]))
    return said


def main(bundle):
    model = cactus_init(bundle)

    def answer(messages, max_tokens):
        with tempfile.TemporaryDirectory() as folder:
            cactus_reset(model)
            said = cactus_complete(model, [message_of(m, folder) for m in messages], dict(OPTIONS, max_tokens=max_tokens))
        if not said.get("success"):
            raise RuntimeError(said.get("error") or "no success")
        if said.get("cloud_handoff"):
            raise RuntimeError("the answer came from the cloud")
        return {"text": said["response"], "confidence": said.get("confidence"),
                "finish_reason": "length" if said.get("decode_tokens", 0) >= max_tokens else "stop",
                "prompt_tokens": said.get("prefill_tokens"), "tokens": said.get("decode_tokens")}

    pipe.serve(answer)


if __name__ == "__main__":
    main(sys.argv[1])
