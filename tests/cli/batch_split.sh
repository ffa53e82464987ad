# batch_split.sh -- ranks of unequal speed have micro-batches of unequal size (parallel.batch_split): one split has the
# same bits under every policy, pipeline, as threads and after resuming, is near one rank, and an even list is the even
# run. A measured split is written into job.yaml, which repeats the run; a run that resumes keeps it.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i 's/global_batch: 4, micro_batch: 1/global_batch: 8/' job.yaml
split='--parallel.batch_split 3,1'

losses_and_evals() { # RUN
    sed -n 's/^{"event":"\(step\|eval\)","step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2 \3/p' "$1/log.jsonl" >"$1.losses"
}

# ---- One split
train $split --train.out split --train.save_every 8 --train.eval_every 4
losses_and_evals split
expect_lines 10 split.losses
expect_line '^  batch_split: \[3, 1\]$' split/job.yaml
expect_line '^  micro_batch: 3$' split/job.yaml
for dp in zero1 zero2 zero3; do
    train $split --train.out $dp --train.save_every 8 --train.eval_every 4 --parallel.dp $dp --parallel.no_sync true
done
train $split --train.out threads --train.save_every 8 --train.eval_every 4 --launch.as threads --parallel.recompute full \
    --parallel.dp zero3 --parallel.no_sync true --parallel.offload.optimizer file --parallel.offload.path .
train $split --train.out pp --train.save_every 8 --train.eval_every 4 --launch.ranks 4 --parallel.pp 2
train $split --train.out half --train.steps 4 --train.save_every 4 --train.eval_every 4
train $split --train.out half --train.save_every 4 --train.eval_every 4 --parallel.dp zero3 --parallel.no_sync true
for run in zero1 zero2 zero3 threads pp half; do
    losses_and_evals $run
    expect_same split.losses $run.losses
    expect_same_checkpoint split $run
done
train $split --train.out each2 --parallel.dp zero2 --parallel.no_sync false
train $split --train.out each3 --parallel.dp zero3 --parallel.no_sync false
expect_same_losses each2 each3

# ---- The samples are those of one rank, and of an even split
train --train.out one --launch.ranks 1 --train.micro_batch 8 --train.eval_every 4
train --train.out even --train.micro_batch 2 --train.save_every 8
train --train.out list --parallel.batch_split 2,2 --train.save_every 8
train --train.out three --launch.ranks auto --parallel.batch_split 1,2,1 --train.eval_every 4
expect_line '"ranks":3' three/log.jsonl
for run in split each2 even three; do expect_near_losses one $run 1e-5; done
losses_and_evals one
sed -n 's/^eval 8 //p' one.losses split.losses | awk '{ x[NR] = $1 } END { d = x[1] - x[2]; exit !(NR == 2 && d * d < 1e-9) }' ||
    fail 'an evaluation differs from that of one rank'
expect_same_losses even list
expect_same_checkpoint even list
! cmp -s split/checkpoints/latest/model.safetensors even/checkpoints/latest/model.safetensors ||
    fail 'the split changes nothing'
ok "$trireme" predict split/job.yaml --model split/checkpoints/latest --data toy_valid --output split.jsonl
ok "$trireme" predict one/job.yaml --model split/checkpoints/latest --data toy_valid --output one.jsonl
expect_same split.jsonl one.jsonl

# ---- A measured split
train --parallel.batch_split measured --train.micro_batch 4 --train.out measured
expect_line '^  batch_split: \[[1-4], [1-4]\]$' measured/job.yaml
expect_line 'parallel.batch_split measured [0-9.]+, [0-9.]+ GFLOP/s on the data-parallel ranks; micro-batches of \[' measured/log.jsonl
ok "$trireme" train measured/job.yaml --quiet --train.out repeated
expect_same_losses measured repeated
# What the machine measures is not known, so the run is given another split before it resumes.
train --parallel.batch_split measured --train.micro_batch 4 --train.out kept --train.steps 4 --train.save_every 4
sed -i 's/^  batch_split: .*/  batch_split: [3, 1]/' kept/job.yaml
train --parallel.batch_split measured --train.micro_batch 4 --train.out kept --train.save_every 4
expect_line '^  batch_split: \[3, 1\]$' kept/job.yaml
expect_steps kept 8

# ---- Shown before a run, and refused
run "$trireme" plan job.yaml $split
expect_exit 0
expect_line 'micro-batches of \[3, 1\] sequences by rank' stdout
expect_line 'rank 0$' stdout
run "$trireme" plan job.yaml --parallel.batch_split 1,3
expect_line 'rank 1$' stdout
run "$trireme" explain job.yaml $split
expect_exit 0
expect_line '^parallel.batch_split +\[3, 1\]' stdout
expect_line '^train.accumulation +2 +train.global_batch / the sum of parallel.batch_split' stdout
refused() { # ARGUMENTS... LINE
    run "$trireme" train job.yaml --quiet --train.out refused "${@:1:$#-1}"
    expect_exit 2
    expect_line "${*: -1}"
    expect_no_file refused
}
refused --parallel.batch_split 3,1,1 'found 3 numbers; valid: 2, one for each data-parallel rank'
refused --parallel.batch_split 3,2 'found 8, not a multiple of 5 \(parallel.batch_split: 3 \+ 2\); nearest valid: 5 and 10'
refused $split --train.micro_batch 2 'train.micro_batch: found 2; valid: auto, or 3, the largest number'
refused $split --data.order torch 'found with data.order torch'
refused --parallel.batch_split mesured 'did you mean measured\?'
refused --parallel.batch_splt 3,1 'did you mean parallel.batch_split\?'
finish
