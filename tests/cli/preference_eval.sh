# preference_eval.sh -- `trireme eval` of a job with a preference loss: the loss and the means of the rewards are those of the
# run's own evaluation, whether the reference's numbers are those of the run or are computed again.
. "${0%/*}/lib.sh" "$1"
golden=${0%/*}/../golden/preference
cat >dpo.yaml <<END
model: {path: $golden/model}
data: {train: $golden/pairs.jsonl, valid: $golden/pairs.jsonl, packing: none, order: sequential, seq_len: 96}
train: {steps: 4, global_batch: 4, micro_batch: 2, save_every: 4, eval_every: 4, loss: dpo}
optimizer: {name: adamw, lr: 3e-3}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 1}
END
for loss in orpo kto; do sed "s/loss: dpo/loss: $loss/" dpo.yaml >$loss.yaml; done

# The members of the evaluation of a run, and of the one that is printed, that both have.
of_run() {
    grep '"event":"eval"' "$1/log.jsonl" | grep -o '"\(loss\|rewards/[a-z]*\)":[^,}]*'
}
evaluate() { # NAME JOB [OVERRIDES]
    local name=$1 job=$2
    shift 2
    ok "$trireme" eval "$job" --train.out "$name" --json "$@"
    grep -o '"\(loss\|rewards/[a-z]*\)":[^,}]*' stdout >"$name.found"
    of_run "$name" >"$name.valid"
    expect_lines 5 "$name.valid"
}
expect_bits() { expect_same "$1.valid" "$1.found"; }
expect_close() {
    paste -d: "$1.valid" "$1.found" | awk -F: '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= 1e-5)) exit 1; n++ } END { exit n != 5 }' ||
        fail "the evaluation of $1 is another one: $(paste "$1.valid" "$1.found")"
}

for loss in dpo orpo kto; do
    ok "$trireme" train $loss.yaml --quiet --train.out $loss
    expect_line '"event":"eval","step":4,"loss":[0-9.e-]+,"rewards/chosen":' $loss/log.jsonl
    expect_no_line 'perplexity' $loss/log.jsonl
    evaluate $loss $loss.yaml --model $loss
    expect_bits $loss
    expect_line '"pairs":[1-9][0-9]*}$' stdout
done
expect_same dpo.valid dpo.found
ok "$trireme" eval dpo.yaml --train.out dpo --model dpo
expect_line '^loss [0-9.]+  rewards chosen -?[0-9.]+  rejected -?[0-9.]+  margin [0-9.]+  accuracy [0-9.]+  pairs [1-9][0-9]*$' stdout

# Under other layouts.
evaluate dpo dpo.yaml --model dpo --launch.ranks 2 --train.micro_batch 1 --parallel.dp zero3
expect_close dpo
evaluate dpo dpo.yaml --model dpo --launch.ranks 2 --parallel.pp 2
expect_close dpo

# Without the run's file the job's own model is the reference, and nothing is written.
mv dpo/reference-valid.bin kept
evaluate dpo dpo.yaml --model dpo
expect_bits dpo
expect_no_file dpo/reference-valid.bin
# Another reference has other rewards.
ok "$trireme" eval dpo.yaml --model dpo --json --dpo.reference dpo/checkpoints/latest --train.out none
expect_line '"rewards/chosen":-?0,|"rewards/chosen":-?[0-9.]+e-' stdout
expect_no_file none
expect_no_line '"perplexity"' stdout

# An adapter's reference is in the file only.
ok "$trireme" train dpo.yaml --quiet --train.out lora --lora.rank 2
evaluate lora dpo.yaml --model lora
expect_bits lora
mv lora/reference-valid.bin kept
run "$trireme" eval dpo.yaml --train.out lora --model lora
expect_exit 2
expect_line 'data.valid: no reference-valid.bin beside the checkpoints of the run; .*; valid: the folder of a checkpoint'
finish
