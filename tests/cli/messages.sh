# messages.sh -- messages that tell a user what to do next.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

# ---- A model folder and sizes in the same job
train --train.save_every 8
model=out/checkpoints/latest
ok "$trireme" explain job.yaml --model.path $model # equal sizes do not contradict each other
expect_line '^model.layers +1 +config.json$' stdout
cp job.yaml other.yaml
sed -i 's/layers: 1/layers: 2/' other.yaml
keep=$PWD/kept
mv out "$keep"
refused 2 '^trireme: other.yaml:1: model.layers: found 2, but config.json of --model.path says 1; valid' "$trireme" train other.yaml --model.path "$keep/checkpoints/latest"
refused 2 '^trireme: --model.layers: model.path is given, and its config.json says' "$trireme" train job.yaml --model.path "$keep/checkpoints/latest" --model.layers 1
sed "s|^model: .*|model: {path: $keep/checkpoints/latest, layers: 1}|" job.yaml >other.yaml
refused 2 '^trireme: other.yaml:1: model.layers: model.path is given' "$trireme" train other.yaml
sed 's|family: gpt2, layers: 1.*|family: llama, layers: 1, hidden: 16, heads: 2, kv_heads: 2, vocab: 320, max_seq: 16}|' job.yaml >other.yaml
refused 2 '^trireme: other.yaml:1: model.kv_heads: found 2, but config.json of --model.path has no such field in gpt2 models' "$trireme" train other.yaml --model.path "$keep/checkpoints/latest"

# ---- Keys without effect
ok "$trireme" explain job.yaml --parallel.sequence_parallel true
expect_lines 1 stderr
expect_line '^trireme: warning: parallel.sequence_parallel has no effect, because parallel.tp is 1; valid: with parallel.tp 2 or more$'
ok "$trireme" plan job.yaml --parallel.sequence_parallel true --parallel.tp 2 --json
expect_lines 0 stderr
expect_json_lines stdout

# ---- Parameter groups: the frozen ones read no optimizer settings, and every pattern matches a tensor
ok "$trireme" explain job.yaml --groups '[{match: "*.bias", trainable: false, lr_scale: 2}, {match: "*.ln_1.bias"}]'
expect_lines 2 stderr
expect_line '^trireme: warning: groups\[0\].lr_scale has no effect, because groups\[0\].trainable is false; valid: with trainable true$'
expect_line '^trireme: warning: groups\[1\] has no effect, because earlier entries match all tensors that \*.ln_1.bias matches$'
expect_line '^groups\[0\].trainable +false +command line$' stdout
expect_line '^groups\[1\].dp +ddp +parallel.dp$' stdout
expect_line '^parameters:$' stdout
expect_line '^  transformer.wte.weight +\[320, 16\] +no group +trainable$' stdout
expect_line '^  transformer.h.0.attn.c_attn.bias +\[48\] +groups\[0\] \(\*.bias\) +frozen$' stdout
ok "$trireme" explain job.yaml
expect_no_line '^parameters:$|groups\[|no group' stdout
cp job.yaml grouped.yaml
printf 'groups:\n  - {match: "*.bias", lr_scale: 2}\n  - match: transformer.wt.*\n    trainable: false\n' >>grouped.yaml
first=$(grep -n '^groups:' grouped.yaml | cut -d: -f1)
refused 2 "^trireme: grouped.yaml:$((first + 2)): groups\[1\].match: found transformer.wt.\*, which matches no tensor of the model; the nearest is transformer.wte.weight\$" "$trireme" train grouped.yaml
refused 2 '^trireme: --groups\[0\].match: found ln_f, which matches no tensor of the model; did you mean \*ln_f\*\?$' "$trireme" plan job.yaml --groups '[{match: ln_f}]'
refused 2 '^trireme: --groups\[0\].optimiser: unknown key; did you mean optimizer\?$' "$trireme" train job.yaml --groups='[{match: a, optimiser: sgd}]'
refused 2 '^trireme: --groups:1:[0-9]+: .*; text that begins with \* needs quotes$' "$trireme" train job.yaml --groups '[{match: *.bias}]'
expect_no_file runs
ok "$trireme" help groups.weight_decay
expect_line '^  Sets the weight decay coefficient. It applies to all parameters of the group, whatever their dimensions, as in torch.optim.$' stdout
expect_line '^  default    optimizer.weight_decay$' stdout
expect_no_line 'flag' stdout
ok "$trireme" train grouped.yaml --help groups.lr_scale
expect_line "^  here       \[\{match: \"\*.bias\", lr_scale: 2\}, .*\] \(origin: grouped.yaml:$first\)\$" stdout

# ---- Context parallelism needs sequences of two equal chunks a rank
refused 2 '^trireme: --parallel.cp: found 3, which splits a sequence into 6 chunks of equal length, but data.seq_len is 16; valid: data.seq_len a multiple of 6, or parallel.cp 1, 2, 4, 8$' "$trireme" train job.yaml --parallel.cp 3
refused 2 '^trireme: --launch.ranks: found 3, not a multiple of cp 2; nearest valid: 2 and 4$' "$trireme" train job.yaml --parallel.cp 2 --launch.ranks 3

# ---- A text that ends at the model's length, and one that does not
ok "$trireme" generate --model "$keep/checkpoints/latest" --prompt 'the sea' --tokens 5000 --seed 1
expect_lines 1 stderr
expect_line '^trireme: ended after [0-9]+ tokens: the model takes at most 16 tokens$'
ok "$trireme" generate --model "$keep/checkpoints/latest" --prompt 'the sea' --tokens 5000 --seed 1 --json
expect_line '"reason": "model_length"' stdout
ok "$trireme" generate --model "$keep/checkpoints/latest" --prompt 'the sea' --tokens 2 --seed 1 --json
expect_lines 0 stderr
expect_line '"reason": "tokens"' stdout

refused 2 '^trireme: generate: --threads: found 4294967297; valid: 0 \(all cores\) to 1024$' "$trireme" generate --model m --prompt x --threads 4294967297

# ---- curve
ok "$trireme" curve "$keep"
expect_line "^read $keep/log.jsonl, drew $keep/loss.png$" stdout
ok "$trireme" curve "$keep" --json
expect_json_lines stdout
expect_line "^\{\"log\":\"$keep/log.jsonl\",\"picture\":\"$keep/loss.png\",\"train\":\{\"step\":\[1,2,3,4,5,6,7,8\],\"loss\":\[" stdout
mkdir empty
head -n 1 "$keep/log.jsonl" >empty/log.jsonl
refused 2 '^trireme: empty/log.jsonl: no losses to draw' "$trireme" curve empty
echo '{"event":"eval","step":4,"loss":1.5,"perplexity":4.5}' >>empty/log.jsonl
refused 2 '^trireme: empty/log.jsonl: no losses to draw' "$trireme" curve empty

# ---- checkpoint verify as JSON
ok "$trireme" checkpoint verify "$keep/checkpoints/latest" --json
expect_line "^\{\"checkpoint\":\"$keep/checkpoints/latest\",\"whole\":true\}$" stdout
printf x >>"$keep/checkpoints/latest/model.safetensors"
run "$trireme" checkpoint verify "$keep/checkpoints/latest" --json
expect_exit 2
expect_line '^\{"checkpoint":".*","whole":false,"error":".*model.safetensors.*"\}$' stdout
expect_lines 1 stderr

# ---- bench as JSON
for what in all_reduce reduce_scatter all_gather broadcast sendrecv; do
    ok "$trireme" bench $what -b 64 -e256 --stepfactor=2 -n 2 --json
    tr -d '\n' <stdout >line
    echo >>line
    expect_json_lines line
    expect_line "^\{\"collective\":\"$what\",\"ranks\":2,\"as\":\"processes\"" line
    [ "$(grep -o '"count":' line | wc -l)" = 3 ] || fail "$what has not three rows"
done
refused 2 '^trireme: bench: -b: found .3x.; valid' "$trireme" bench all_reduce -b 3x
refused 2 '^trireme: bench: --frob: unknown flag' "$trireme" bench all_reduce --frob 1
finish
