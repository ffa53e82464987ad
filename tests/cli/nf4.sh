# nf4.sh -- frozen weights in NF4: runs that stop and resume, their checkpoints, which hold the unpacked weights and go on as
# models of their own, what explain says, and what is refused.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: llama, layers: 2, hidden: 64, heads: 2, ffn: 128, vocab: 320, max_seq: 16, tie_embeddings: false'
groups="[{match: '*norm*'}, {match: '*', trainable: false}]"
set -- --groups "$groups" --train.precision bf16 --parallel.no_sync true

# ---- The same bits under every strategy, also of a run that stops
train "$@" --model.storage nf4 --train.out whole --train.save_every 4 --train.eval_every 8
train "$@" --model.storage nf4 --train.out sharded --train.save_every 4 --parallel.dp zero3
train "$@" --model.storage nf4 --train.out stopped --train.steps 4 --parallel.dp zero3
train "$@" --model.storage nf4 --train.out stopped --train.save_every 4
for run in sharded stopped; do
    expect_steps $run 8
    expect_same_losses whole $run
    expect_same_checkpoint whole $run
done

# ---- The unpacked weights are a model of their own
train "$@" --model.storage nf4 --train.out first --train.steps 1 --train.save_every 1 --optimizer.lr 0
cat >own.yaml <<END
model: {path: first/checkpoints/latest}
$(sed 1d job.yaml)
END
ok "$trireme" train own.yaml --quiet "$@" --train.out unpacked
expect_same_losses whole unpacked
ok "$trireme" train own.yaml --quiet "$@" --train.out packed --model.storage nf4 # twice rounded
[ "$(losses packed)" != "$(losses unpacked)" ] || fail "weights that were packed twice give the same losses"
ok "$trireme" eval job.yaml --model whole/checkpoints/latest "$@" --model.storage nf4 --json
evaluated=$(sed 's/{"loss":\([^,]*\),.*/\1/' stdout)
grep -q "\"loss\":$evaluated" whole/log.jsonl || fail "eval gives $evaluated: $(grep eval whole/log.jsonl)"

# ---- Adapters on a packed base; eval packs it, too
ok "$trireme" train own.yaml --quiet --lora.rank 4 --train.precision bf16 --parallel.no_sync true --model.storage nf4 \
    --train.out adapted --train.save_every 4 --train.eval_every 8
ok "$trireme" train own.yaml --quiet --lora.rank 4 --train.precision bf16 --parallel.no_sync true --model.storage nf4 \
    --train.out adapted-sharded --parallel.dp zero3
expect_same_losses adapted adapted-sharded
ok "$trireme" eval own.yaml --lora.rank 4 --train.precision bf16 --model.storage nf4 --model adapted --json
evaluated=$(sed 's/{"loss":\([^,]*\),.*/\1/' stdout)
grep -q "\"loss\":$evaluated" adapted/log.jsonl || fail "eval gives $evaluated: $(grep eval adapted/log.jsonl)"

# ---- An adapter is merged onto the NF4 form of its base: the merged model has the logits of the packed one
train --train.precision fp32 --train.steps 4 --train.save_every 4 --train.out base
sed 's/^model:.*/model: {path: base\/checkpoints\/latest}/; s/1e-2/5e-2/' job.yaml >qlora.yaml
ok "$trireme" train qlora.yaml --quiet --lora.rank 4 --train.precision fp32 --model.storage nf4 --train.out tuned --train.save_every 8
expect_line '"base_storage": "nf4"' tuned/checkpoints/latest/trireme/state.json
expect_line '"base_precision": "fp32"' tuned/checkpoints/latest/trireme/state.json
ok "$trireme" checkpoint export tuned --to hf --merge --out merged --dtype fp32
expect_line 'as NF4 packs and unpacks them: 14 tensors change, an element by [0-9.e-]+ at most; ' stdout
expect_line 'trained on the NF4 form; the weights as they are stored and their NF4 form differ by 0.0[0-9]+ at most;' stdout
ok "$trireme" checkpoint export tuned --to hf --merge --merge-onto stored --out stored --dtype fp32 --json
expect_line '"notes":"the adapter .* as they are stored there: 14 tensors change' stdout
logits() { # FILE ARGUMENTS...: the logits of a job
    local file=$1
    shift
    ok "$trireme" predict qlora.yaml --train.precision fp32 --what logits "$@"
    tr -cs '0-9.e+-' '\n' <stdout | grep '[0-9]' >"$file"
}
farthest() { # FILE FILE: the largest difference of two numbers
    paste "$1" "$2" | awk 'NF != 2 { exit } { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { print most + 0 }'
}
logits packed.txt --model tuned --lora.rank 4 --model.storage nf4
logits merged.txt --model merged
logits stored.txt --model stored
near=$(farthest packed.txt merged.txt)
far=$(farthest packed.txt stored.txt)
[ "$(wc -l <packed.txt)" -gt 1000 ] || fail "predict printed $(wc -l <packed.txt) numbers"
awk -v n="$near" -v f="$far" 'BEGIN { exit !(n < 1e-5 && f > 1e-3) }' ||
    fail "the logits differ by $near from those of the merged model, by $far from those on the stored base"
for model in tuned merged; do
    ok "$trireme" generate --model $model --prompt 'the sea' --tokens 12 --temperature 0
    cp stdout said-$model
done
expect_same said-tuned said-merged
# An adapter that does not say how its base was kept
cp -rL tuned/checkpoints/latest silent
rm -r silent/trireme
ok "$trireme" checkpoint export silent --to hf --merge --out silent-stored --dtype fp32
expect_same stored/model.safetensors silent-stored/model.safetensors
ok "$trireme" checkpoint export silent --to hf --merge --merge-onto nf4 --out silent-nf4
expect_line 'does not say that it was trained on the NF4 form; .* --merge-onto stored takes the other$' stdout

# ---- What explain says
ok "$trireme" explain job.yaml "$@" --model.storage nf4
expect_line 'weights replicated as NF4, frozen' stdout
expect_line 'unpack weights from NF4 to bf16, block by block' stdout
expect_line 'model.layers.1.self_attn.k_proj.weight .* frozen, NF4$' stdout
for name in model.embed_tokens lm_head; do expect_line "$name.weight .* frozen$" stdout; done

# ---- What is refused
refused 2 'model.storage: found nf4, which keeps frozen weights, but all weights train' \
    "$trireme" train job.yaml --model.storage nf4
refused 2 'model.storage: nf4 keeps blocks of 64 elements together, but a rank has rows of 32 of .*o_proj' \
    "$trireme" train job.yaml "$@" --model.storage nf4 --parallel.tp 2
refused 2 'model.storage: found int4; valid: auto, nf4' "$trireme" train job.yaml "$@" --model.storage int4
refused 2 "^trireme: --merge-onto: found 'int4'; valid: nf4, stored$" \
    "$trireme" checkpoint export tuned --to hf --merge --merge-onto int4 --out out
refused 2 '^trireme: --merge-onto: given without --merge; valid: both$' \
    "$trireme" checkpoint export tuned --to peft --merge-onto nf4 --out out
run "$trireme" train own.yaml "$@" --model.storage nf4 --train.steps 12 --resume whole
expect_exit 2
expect_line 'is not what the NF4 weights of this job.s base give; valid: the model.path, ' stderr
finish
