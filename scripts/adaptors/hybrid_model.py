"""Gemma 4 with a handoff probe, for Transformers: remote code that makes `transformers serve --trust-remote-code` end
each answer with its confidence, as the line [[hybrid:confidence=0.7812]].

    python3 scripts/adaptors/hybrid_model.py CHECKPOINT FOLDER

makes a checkpoint folder that carries this code: the text part of a multimodal hybrid checkpoint, towers left out.

The probe reads the output of decoder layer `probe_layer` at the row that leads to each generated token, the stop token
included, the first 1024 of them. Confidence is 1 - sigmoid of its last number."""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoTokenizer, Gemma4ForCausalLM


# The class by which `transformers serve` (5.24) asks for a model that is not multimodal, and everybody else's.
LOADERS = ["AutoModelForDecision", "AutoModelForCausalLM"]


class HandoffProbe(nn.Module):
    def __init__(self, width, dim, first, second, eps, most_rows):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)
        self.proj = nn.Linear(width, dim)
        self.attn_query = nn.Parameter(torch.zeros(dim))
        self.head = nn.Sequential(nn.Linear(dim, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(),
                                  nn.Linear(second, 1))
        self.most_rows = most_rows

    def forward(self, rows):
        u = torch.relu(self.proj(self.norm(rows[: self.most_rows].float())))
        weights = torch.softmax(u @ self.attn_query / self.attn_query.numel() ** 0.5, dim=0)
        return 1 - torch.sigmoid(self.head(weights @ u)[0])


class EndingStreamer:
    """Passes a stream on, and puts some ids in front of its end."""

    def __init__(self, streamer, ending):
        self.streamer, self.ending = streamer, ending

    def put(self, value):
        self.streamer.put(value)

    def end(self):
        self.streamer.put(self.ending())
        self.streamer.end()


class Gemma4Hybrid(Gemma4ForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        first, second = getattr(config, "probe_head_dims", [128, 64])
        self.handoff_probe = HandoffProbe(
            config.hidden_size, getattr(config, "probe_dim", 32), first, second,
            getattr(config, "probe_layer_norm_eps", 1e-5), getattr(config, "probe_max_tokens", 1024))
        self.probe_layer = getattr(config, "probe_layer", 28)

    def trailer(self, rows):
        if not hasattr(self, "own_tokenizer"):
            self.own_tokenizer = AutoTokenizer.from_pretrained(self.config._name_or_path)
        confidence = float(self.handoff_probe(torch.stack(rows)))
        text = "\n[[hybrid:confidence=%.4f]]" % confidence
        return torch.tensor(self.own_tokenizer.encode(text, add_special_tokens=False))

    @torch.no_grad()
    def generate(self, *args, **kwargs):
        rows = []
        layer = self.model.layers[self.probe_layer]
        hook = layer.register_forward_hook(
            lambda _, __, out: rows.append((out[0] if isinstance(out, tuple) else out)[0, -1].detach()))
        streamer = kwargs.get("streamer")
        if streamer is not None:
            kwargs["streamer"] = EndingStreamer(streamer, lambda: self.trailer(rows))
        try:
            out = super().generate(*args, **kwargs)
        finally:
            hook.remove()
        if streamer is not None or not torch.is_tensor(out):
            return out
        return torch.cat([out, self.trailer(rows)[None].to(out.device)], dim=1)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        if (source / name).exists():
            shutil.copy(source / name, folder)
    shutil.copy(__file__, folder / "hybrid_model.py")
    whole = json.loads((source / "config.json").read_text())
    config = {**whole["text_config"], **{k: v for k, v in whole.items() if k.startswith("probe_")}}
    config |= {"architectures": ["Gemma4Hybrid"], "model_type": "gemma4_text",
               "auto_map": {kind: "hybrid_model.Gemma4Hybrid" for kind in LOADERS}}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    text = "model.language_model."
    save_file({name.replace(text, "model."): t.contiguous() for name, t in load_file(source / "model.safetensors").items()
               if name.startswith((text, "handoff_probe."))}, folder / "model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()
