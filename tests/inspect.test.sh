#!/usr/bin/env bash
# inspect: what a checkpoint says of itself, and what is odd about it, also if it cannot run.
. "$(dirname "$0")/e2e.sh"
tiny=../shared/gguf/gguf-tiny-a types=../shared/gguf/gguf-types folder=../shared/model/tiny-a-hybrid

# says PATTERN FILE [OPTION...]: inspect ends with 0 and prints a line that matches
says() { "$handoff" inspect "${@:2}" >"$scratch/said" 2>&1 && grep -qE -- "$1" "$scratch/said" || { cat "$scratch/said"; false; }; }
silent() { ! says "$@" >/dev/null; }
copy() { rm -rf "$scratch/c"; cp -rL "$mini/checkpoint" "$scratch/c"; }
# patched FROM TO FILE: a copy with one byte string replaced by another of the same length
patched() { LC_ALL=C sed "s/$1/$2/" "$3" >"$scratch/p.gguf"; }

check "nothing is odd about the embedded checkpoint" silent "odd about it" $mini/checkpoint
check "its template" says '^chat template +chat_template.jinja, [0-9]+ bytes, sha256 [0-9a-f]{16}' $mini/checkpoint
check "its tokenizer" says '^tokenizer +BPE with byte fallback, 896 pieces, 520 merges, 24 added tokens' $mini/checkpoint
copy; echo "Answer in verse." >>"$scratch/c/chat_template.jinja"
check "another template" says '^  the chat template makes other prompts' "$scratch/c"
copy; rm "$scratch/c/chat_template.jinja"
check "no template" says '^  no chat template' "$scratch/c"
copy; size=$(stat -c %s "$scratch/c/model.safetensors")
printf '\xc0\x7f' | dd of="$scratch/c/model.safetensors" bs=1 seek=$((size - 2)) conv=notrunc status=none
check "a value that is NaN" says '^  it cannot run here: .*finite weights were expected' "$scratch/c"
check "and its tensors" says '^[0-9]+ tensors, ' "$scratch/c"
copy; sed -i 's/"probe_layer"/"probe_layex"/' "$scratch/c/config.json"
check "a probe without a layer" says '^  the file does not say which layer the handoff probe reads' "$scratch/c"
copy; sed -i 's/gelu_pytorch_tanh/relu/' "$scratch/c/config.json"
check "a model that cannot run" says '^  it cannot run here: .*hidden_activation' "$scratch/c"
copy; sed -i 's/"vocab_size": *896/"vocab_size": 897/' "$scratch/c/config.json"
check "more rows than ids" says '^  the model has 897 tokens, the tokenizer.s last id is 895' "$scratch/c"
copy; head -c 100 "$mini/checkpoint/config.json" >"$scratch/c/config.json"
check "damage" fails 3 "c/config.json" "$handoff" inspect "$scratch/c"
"$handoff" quantize $mini/checkpoint "$scratch/q.gguf" --type q4_k_m --no-mmproj >/dev/null
check "a hybrid by its name" says '^architecture +gemma-4-e2b-it-hybrid' "$scratch/q.gguf"
check "its mix" says '^called +Q4_K_M \(general.file_type 15\)' "$scratch/q.gguf"
check "bits of the table" says '^  the per-layer embeddings, the largest table, have [0-9.]+ bits' "$scratch/q.gguf"
if [ -d $tiny ]; then
    check "another label than the mix" says 'general.file_type says F32, but most of the layers. numbers are Q2_K' \
        $types/types-kquants.gguf
    check "mixed types" says 'mixed types: Q2_K [0-9]+%, Q3_K' $types/types-kquants.gguf
    check "added tokens that llama.cpp splits" says '^  34 added tokens are typed as normal' $tiny/tiny-a-hybrid-q4_0.gguf
    check "unused keys and values" says '^  12 of its tensors are keys and values of layers that share' $folder
    check "two lists of stop tokens" says 'ends at 1 by config.json and at 1 37 30 by generation_config.json' $folder
    check "a projector" says '^form +GGUF file, vision and audio towers' $tiny/mmproj-tiny-a-f16.gguf
    patched tokenizer.ggml.model tokenizer.ggml.modex $tiny/tiny-a-plain-f16.gguf
    check "a tokenizer that cannot be read" says 'cannot run here: .*tokenizer.ggml.model: "gemma4" was expected' "$scratch/p.gguf"
    check "but its form" says '^form +GGUF file, a model' "$scratch/p.gguf"
    patched gemma4.block_count gemma4.block_counx $tiny/tiny-a-plain-f16.gguf
    check "a decoder that cannot run" says 'cannot run here: .*gemma4.block_count: a number was expected' "$scratch/p.gguf"
    patched final_logit_softcapping final_logit_softcappinx $tiny/tiny-a-plain-f16.gguf
    check "no softcap" says '^  no final_logit_softcapping: 30 is taken' "$scratch/p.gguf"
    patched rope_freqs.weight output.norm.weigh $tiny/tiny-a-plain-f16.gguf
    check "a tensor that nothing reads" says '^  1 of its tensors belong to nothing in this model' "$scratch/p.gguf"
    head -c 70000 $tiny/tiny-a-plain-f16.gguf >"$scratch/p.gguf"
    check "a file cut short" fails 3 "p.gguf" "$handoff" inspect "$scratch/p.gguf"
fi
finish
