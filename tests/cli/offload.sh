# offload.sh -- a model whose state is larger than memory.budget. The job is refused with exit code 3 and leaves no
# file. With weights, gradients and optimizer state in files it trains, computes the same bits, stays below the
# budget, and leaves no file in the folder of the file tier.
. "${0%/*}/lib.sh" "$1"
budget=150000000 # the state has 16 bytes for each of 12.7 million parameters, 203 MB
files="--parallel.offload.weights file --parallel.offload.gradients file --parallel.offload.optimizer file --parallel.offload.path tier"
cat >job.yaml <<END
model: {family: gpt2, layers: 16, hidden: 256, heads: 4, vocab: 64, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0}
data: {train: mock, seq_len: 16}
train: {steps: 3, global_batch: 1, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
lr_schedule: {name: constant, warmup_steps: 0}
parallel: {dp: zero3, bucket_bytes: 2Mi}
launch: {ranks: 1, threads_per_rank: 1}
END

refused 3 'memory.budget' "$trireme" train job.yaml --quiet --memory.budget $budget
train --train.out plain
train --train.out filed --memory.budget $budget $files
expect_line '^trireme: parallel.offload.path: created the folder .*/tier(;|$)'
expect_steps filed 3
expect_same_losses plain filed
expect_none "files left in the tier's folder" "$(ls -A tier)"

# Resident memory; a shared page counts as its share.
ok "$trireme" bench train job.yaml --memory.budget $budget $files --json
resident=$(sed -n 's/.*"pss_bytes_per_rank":\([0-9]*\),.*/\1/p' stdout)
moved=$(sed -n 's/.*"bytes_written":\([0-9]*\),.*/\1/p' stdout)
[ "${resident:-$budget}" -lt $budget ] || fail "a rank has $resident bytes of memory, its budget is $budget"
[ "${moved:-0}" -gt 150000000 ] || fail "only $moved bytes a step were written: weights and two moments have 151 MB"
finish
