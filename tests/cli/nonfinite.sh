# nonfinite.sh -- NaN or Inf stops a run before the update, and the message names rank, step and tensor; or the
# run skips the step, if the job says so.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

# ---- Weights so large that the next step overflows
run "$trireme" train job.yaml --quiet --train.save_every 1 --optimizer.lr 1e30 --train.clip_grad_norm 0
expect_exit 1
expect_lines 1 stderr
expect_line '^trireme: rank [01]: step 2: .*(gradient|loss).*transformer\.'
expect_steps out 1
expect_line '^{"event":"error","rank":[01],"text":"rank [01]: step 2:' out/log.jsonl
expect_line '^{"event":"end".*"reason":"failed"' out/log.jsonl
expect_no_line '"event":"step","step":2' out/log.jsonl
ok "$trireme" checkpoint verify out/checkpoints/step-00000001
expect_no_file out/checkpoints/step-00000002

# ---- A weight file with NaN in the last row of the tied embedding, which every logit row uses
rm -rf out
train --train.steps 1 --train.save_every 1
cp -r out/checkpoints/step-00000001 bad
patch bad/model.safetensors $(($(stat -c %s bad/model.safetensors) - 4)) '\x00\x00\xc0\x7f'
sed 's/^model:.*/model: {path: bad}/' job.yaml >folder.yaml
for as in processes threads; do
    rm -rf out
    run "$trireme" train folder.yaml --quiet --launch.as $as
    expect_exit 1
    expect_lines 1 stderr
    expect_line '^trireme: rank [01]: step 1: the loss is -?nan; first gradient that is not finite: transformer\.[a-z0-9_.]*; first in FORWARD micro 0 block [0-9]+ [^(]*\(samples? [0-9, …]+\)$'
    expect_steps out 0
done

# ---- A sample whose products overflow, on one rank of two: that rank is named
safetensors points.safetensors \
    '{"x":{"dtype":"F32","shape":[8,1],"data_offsets":[0,32]},"y":{"dtype":"F32","shape":[8],"data_offsets":[32,64]}}' \
    "$(for i in 1 2 3 H 5 6 7 8 1 2 3 H 5 6 7 8; do [ $i = H ] && printf '\\xff\\xff\\x7f\\x7f' || printf '\\x00\\x00\\x00\\x3f'; done)"
make_job 'family: mlp, features: 1, hidden: 8, layers: 1, vocab: 1, loss: mse'
sed -i 's/^data:.*/data: {train: points.safetensors, order: sequential}/' job.yaml
rm -rf out
run "$trireme" train job.yaml --quiet
expect_exit 1
expect_line '^trireme: rank 1: step 1: .*layers\.0\..*; first in FORWARD micro 1 block 0 .*\(sample 3\)$'

# ---- … and in a pipeline the stage that computed the first such value, not the one that received it
rm -rf out
run "$trireme" train job.yaml --quiet --parallel.pp 2 --model.layers 3
expect_exit 1
expect_line '^trireme: rank 0: step 1: .*; first in FORWARD micro 3 block 0 .*\(sample 3\)$'

# ---- Skipped steps are logged, and the run ends with the weights of the finite steps
rm -rf out
train --checks.nonfinite skip --train.steps 12 --train.save_every 12
expect_line '^{"event":"step","step":1,.*"grad_norm":null,"grad_norm_text":"-?(nan|inf)",.*"skipped":true}' out/log.jsonl
expect_line '^{"event":"step","step":2,"loss":[0-9.]+,.*"skipped":false}' out/log.jsonl
[ "$(grep -c '"skipped":true' out/log.jsonl)" = 6 ] || fail 'not every other step is skipped, with 8 samples and 4 a step'
[ "$(grep -c '"event":"step"' out/log.jsonl)" = 12 ] || fail 'not 12 steps in the log'
ok "$trireme" checkpoint verify out/checkpoints/latest
train --checks.nonfinite skip --train.steps 1 --train.save_every 1 --train.out skipped
train --checks.nonfinite skip --train.steps 1 --train.save_every 1 --train.out drawn --optimizer.lr 0 --optimizer.weight_decay 0
expect_same skipped/checkpoints/latest/model.safetensors drawn/checkpoints/latest/model.safetensors

# ---- A skipped step changes neither weights nor optimizer state, wherever they are: step 2 is the last finite one
sed -i 's/layers: 1/layers: 3/' job.yaml
weights=checkpoints/latest/model.safetensors state=checkpoints/latest/trireme/state.safetensors
files='--parallel.offload.weights file --parallel.offload.gradients file --parallel.offload.optimizer file --parallel.offload.path tier'
skips() { # NAME LIKE FLAGS: as the run LIKE
    local name=$1 like=$2
    shift 2
    for steps in 2 3; do
        train --checks.nonfinite skip --train.steps $steps --train.save_every $steps --train.out $name$steps "$@"
    done
    [ "$(grep -c '"skipped":true' ${name}3/log.jsonl)" = 2 ] || fail "$name: steps 1 and 3 are not skipped"
    expect_same ${name}2/$weights ${name}3/$weights
    expect_same ${name}2/$state ${name}3/$state
    expect_same ${name}3/$weights ${like}3/$weights
    expect_same ${name}3/$state ${like}3/$state
}
skips ddp ddp
skips zero1 ddp --parallel.dp zero1
skips zero3 ddp --parallel.dp zero3
skips files ddp --parallel.dp zero3 $files
skips pipe pipe --parallel.pp 2
skips low low --train.precision bf16
skips low1 low --train.precision bf16 --parallel.dp zero1
skips lowfiles low --train.precision bf16 --parallel.dp zero3 $files
skips lion lion --optimizer.name lion --parallel.dp zero2
! cmp -s ddp3/$weights low3/$weights || fail 'bf16 has the bits of fp32'
train --checks.nonfinite skip --train.steps 1 --train.save_every 1 --train.out first
! cmp -s ddp3/$weights first/$weights || fail 'the finite step changed nothing'

# ---- In files, too, the tensor is named after the step, and nothing was updated
rm -rf out
run "$trireme" train job.yaml --quiet --parallel.dp zero3 $files
expect_exit 1
expect_line '^trireme: rank 1: step 1: .*layers\.0\.'
finish
