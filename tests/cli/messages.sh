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
