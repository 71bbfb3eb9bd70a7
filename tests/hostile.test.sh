#!/usr/bin/env bash
# Hostile checkpoints of every form from the command line: status 3 and one line, whatever byte is wrong; never a crash,
# a hang, or a part of the answer.
. "$(dirname "$0")/e2e.sh"
h=$scratch/h; mkdir "$h"
big='\377\377\377\377\377\377\377\177'                  # 2^63 - 1

# poke FILE OFFSET BYTES: overwrites bytes, given as printf has them
poke() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
# bad WHAT FILE: inspect and generate end with 3 and one line that names the file
bad() {
    local verb
    for verb in "inspect $2" "generate --model ${3:-$2} --tokens 2 --max-tokens 1"; do
        timeout 60 "$handoff" $verb >"$scratch/out" 2>"$scratch/err"
        local status=$?
        [ $status -eq 3 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] && [ ! -s "$scratch/out" ] &&
            grep -qF "$(basename "$2")" "$scratch/err" || { echo "$verb: $status: $(head -3 "$scratch/err")"; return 1; }
    done
}
# refused NAME FILE OFFSET BYTES: a copy of FILE with these bytes
refused() {
    local copy; copy=$h/x-$(basename "$2")
    cp "$2" "$copy"; poke "$copy" "$3" "$4"
    check "$1" bad "$1" "$copy"
    rm "$copy"
}
# sweep FILE FROM TO STEP COMMAND...: one byte after another set to 255, 0 or 128 in $swept, which COMMAND opens; every
# run ends with 0 or 3, and 3 with one line
sweep() {
    local file=$1 at status values=('\377' '\000' '\200')
    for ((at = $2; at < $3; at += $4)); do
        cp "$file" "$swept"; poke "$swept" $at "${values[at / $4 % 3]}"
        timeout 60 "$handoff" "${@:5}" >"$scratch/out" 2>"$scratch/err"; status=$?
        [ $status -eq 0 ] || { [ $status -eq 3 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ]; } ||
            { echo "byte $at: status $status: $(head -3 "$scratch/err")"; return 1; }
    done
}
link_folder() { rm -rf "$h/$2"; mkdir "$h/$2"; ln -s "$(realpath "$1")"/* "$h/$2/"; rm -f "$h/$2/$3"; }

"$handoff" quantize $mini/checkpoint "$h/q.gguf" --type q4_0 >/dev/null
towers=$(ls "$h"/mmproj*.gguf); mv "$towers" "$h/towers.gguf"; towers=$h/towers.gguf
"$handoff" quantize $mini/checkpoint "$h/mlx" --type mlx-4 --no-mmproj >/dev/null
"$handoff" quantize $mini/checkpoint "$h/cq" --type cq4 --no-mmproj >/dev/null 2>&1

# ---- GGUF: magic, version, counts, a key's length
refused "GGUF: magic" "$h/q.gguf" 0 'GGUX'
refused "GGUF: version" "$h/q.gguf" 4 '\011'
refused "GGUF: 2^63 tensors" "$h/q.gguf" 8 "$big"
refused "GGUF: 2^63 values" "$h/q.gguf" 16 "$big"
refused "GGUF: a key of 2^63 bytes" "$h/q.gguf" 24 "$big"
swept=$h/sweep.gguf
check "GGUF: each byte of the beginning" sweep "$h/q.gguf" 0 330 6 generate --model "$h/sweep.gguf" --tokens 2 --max-tokens 1
infos=$(LC_ALL=C grep -obUa blk.0.attn_k.weight "$h/q.gguf" | head -1 | cut -d: -f1)
check "GGUF: each byte of a tensor's entry" sweep "$h/q.gguf" $((infos - 8)) $((infos + 52)) 2 \
    generate --model "$h/sweep.gguf" --tokens 2 --max-tokens 1
tokens=$(LC_ALL=C grep -obUa tokenizer.ggml.merges "$h/q.gguf" | head -1 | cut -d: -f1)
check "GGUF: each byte at the merges" sweep "$h/q.gguf" $((tokens - 8)) $((tokens + 60)) 3 \
    generate --model "$h/sweep.gguf" --tokens 2 --max-tokens 1
for cut in 3 23 100 5000 60000; do
    head -c $cut "$h/q.gguf" >"$h/cut.gguf"
    check "GGUF: cut at $cut" bad cut "$h/cut.gguf"
done
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a\11\0\0\0\11\0\0\0\1\0\0\0\0\0\0\0' >"$h/nest.gguf"
check "GGUF: an array in an array" bad nest "$h/nest.gguf"
{ printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a\11\0\0\0\10\0\0\0\0\0\0\0\0\1\0\0'; head -c 4096 /dev/zero; } >"$h/strings.gguf"
check "GGUF: 2^40 strings" bad strings "$h/strings.gguf"

# ---- the projector beside it
for damage in '0 GGUX' "8 $big" "16 $big" "24 $big"; do
    cp "$towers" "$h/p.gguf"; poke "$h/p.gguf" ${damage% *} "${damage#* }"
    check "projector: bytes at ${damage% *}" fails 3 p.gguf "$handoff" generate --model "$h/q.gguf" --mmproj "$h/p.gguf" --prompt x
done
swept=$h/sweep.gguf
check "projector: each byte of the beginning" sweep "$towers" 0 200 5 \
    generate --model "$h/q.gguf" --mmproj "$h/sweep.gguf" --tokens 2 --max-tokens 1

# ---- safetensors: length of the header, the header, shards
folder() { link_folder $mini/checkpoint "$1" "$2"; }
folder st model.safetensors
tensors=$mini/checkpoint/model.safetensors
st() { cp "$tensors" "$h/st/model.safetensors"; poke "$h/st/model.safetensors" "$1" "$2"; }
for damage in "0 $big" '0 \0\0\0\0\0\0\0\0' '0 \377\377\377\377\377\377\377\377' '8 [' '8 \0' '40 \377'; do
    st ${damage% *} "${damage#* }"
    check "safetensors: bytes ${damage#* } at ${damage% *}" bad st "$h/st/model.safetensors" "$h/st"
done
swept=$h/st/model.safetensors
check "safetensors: each byte of the header" sweep "$tensors" 0 400 9 generate --model "$h/st" --tokens 2 --max-tokens 1
header() { { printf "\\$(printf %o $((${#1} & 255)))\\$(printf %o $((${#1} >> 8 & 255)))\\$(printf %o $((${#1} >> 16)))\0\0\0\0\0%s" "$1"; head -c 64 /dev/zero; } >"$h/st/model.safetensors"; }
many=$(printf '[%.0s' {1..60000})
for json in '{"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,64]}}' "$many" '{"a":' \
    '{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,64]}}' \
    '{"a":{"dtype":"F32","shape":[16],"data_offsets":[18446744073709551552,64]}}' \
    '{"a":{"dtype":"F32","shape":[16],"data_offsets":[64,0]}}' '{"a":{"dtype":"F32","shape":[-16],"data_offsets":[0,64]}}' \
    '{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}}'; do
    header "$json"
    check "safetensors: ${json:0:70}" bad st "$h/st/model.safetensors" "$h/st"
done
rm "$h/st/model.safetensors"; ln -s model.safetensors "$h/st/model.safetensors"
check "a link to itself" bad link "$h/st"
rm "$h/st/model.safetensors"; mkdir "$h/st/model.safetensors"
check "a folder in place of a file" bad folder "$h/st/model.safetensors" "$h/st"
rmdir "$h/st/model.safetensors"; mkfifo "$h/st/model.safetensors"
check "a pipe in place of a file" bad pipe "$h/st/model.safetensors" "$h/st"
rm "$h/st/model.safetensors"
for name in ../../../../etc/passwd /etc/passwd ..  model.safetensors.index.json sub/x.safetensors '..\\x.safetensors'; do
    printf '{"weight_map":{"a":"%s"}}' "$name" >"$h/st/model.safetensors.index.json"
    check "shards: $name" fails 3 'index.json: (tensor a|.*string)' "$handoff" generate --model "$h/st" --tokens 2
    check "shards: $name is not read" bash -c '! grep -q root: "$1"' _ "$scratch/err"
done

# ---- MLX: the packed words' type and shape; CQ: the header of a tensor, the probe
link_folder "$h/mlx" m model.safetensors
swept=$h/m/model.safetensors
check "MLX: bytes of the header" sweep "$h/mlx/model.safetensors" 8 900 29 generate --model "$h/m" --tokens 2 --max-tokens 1
for key in scales biases; do
    LC_ALL=C sed "0,/q_proj.$key/s/q_proj.$key/q_proj.${key%?}X/" "$h/mlx/model.safetensors" >"$h/m/model.safetensors"
    check "MLX: no $key" fails 3 "m/model.safetensors" "$handoff" generate --model "$h/m" --tokens 2
done
one=layer_0_attn_q.weights
[ -e "$h/cq/$one" ] || one=$(cd "$h/cq" && ls layer_0*q*.weights | head -1)
link_folder "$h/cq" c "$one"
swept=$h/c/$one
check "CQ: each byte of a tensor's header" sweep "$h/cq/$one" 0 96 2 generate --model "$h/c" --tokens 2 --max-tokens 1
for damage in '0 XXXX' "8 $big" "16 $big" "24 $big"; do
    cp "$h/cq/$one" "$h/c/$one"; poke "$h/c/$one" ${damage% *} "${damage#* }"
    check "CQ: bytes at ${damage% *}" fails 3 "$one" "$handoff" generate --model "$h/c" --tokens 2 --max-tokens 1
done
cp "$h/cq/$one" "$h/c/$one"
probe=$h/cq/handoff_probe.bin
swept=$h/probe.bin
check "probe file: each byte of its header" sweep "$probe" 0 64 2 generate --model $mini/checkpoint --probe "$h/probe.bin" \
    --probe-layer 3 --tokens 2 --max-tokens 1
cp "$probe" "$h/probe.bin"; poke "$h/probe.bin" 0 'XXXX'
check "probe file: magic" fails 3 probe.bin "$handoff" generate --model $mini/checkpoint --probe "$h/probe.bin" --prompt x
head -c 500 "$probe" >"$h/probe.bin"
check "probe file: cut" fails 3 probe.bin "$handoff" generate --model $mini/checkpoint --probe "$h/probe.bin" --prompt x
finish
