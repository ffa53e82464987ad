# resume.sh -- a run that stops and resumes has the bits of a run that never stopped; and which checkpoint --resume
# chooses.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'

# ---- 8 steps, against 4 steps and 4 more, with dropout, a learning-rate schedule and validation data
for precision in fp32 bf16; do
    common="--train.precision $precision --train.save_every 4 --train.eval_every 4 --lr_schedule.name wsd --lr_schedule.decay_steps 2"
    train $common --train.out straight-$precision
    cp -r straight-$precision stopped-$precision
    rm -r stopped-$precision/checkpoints/step-00000008
    sed -i '/"event":"step","step":5/,$d' stopped-$precision/log.jsonl
    train $common --train.out stopped-$precision
    expect_line '"event":"start".*"resumed_from":4' stopped-$precision/log.jsonl
    expect_steps stopped-$precision 8
    expect_same_losses straight-$precision stopped-$precision
    expect_same_checkpoint straight-$precision stopped-$precision
    grep '"event":"eval"' straight-$precision/log.jsonl >straight.evals
    grep '"event":"eval"' stopped-$precision/log.jsonl >stopped.evals
    expect_same straight.evals stopped.evals
done

# ---- The same with parameter groups: what is frozen has no state, and the layout of a group may change
groups() { # SETTINGS-OF-THE-FROZEN-GROUP
    echo "[{match: '*.mlp.*', trainable: false$1}, {match: '*.bias', lr_scale: 2}]"
}
train --train.save_every 4 --train.out straight-groups --groups "$(groups '')"
cp -r straight-groups stopped-groups
rm -r stopped-groups/checkpoints/step-00000008
sed -i '/"event":"step","step":5/,$d' stopped-groups/log.jsonl
train --train.save_every 4 --train.out stopped-groups --groups "$(groups ', dp: zero3')" --parallel.offload.optimizer file \
    --parallel.offload.path nvme
expect_line '"event":"start".*"resumed_from":4' stopped-groups/log.jsonl
expect_steps stopped-groups 8
expect_same_losses straight-groups stopped-groups
expect_same_checkpoint straight-groups stopped-groups

# ---- The number of steps grows on the command line
train --train.save_every 4 --train.steps 4 --train.out grown
train --train.save_every 4 --train.steps 8 --train.out grown
train --train.save_every 4 --train.steps 8 --train.out whole
expect_steps grown 8
expect_same_losses whole grown
expect_same_checkpoint whole grown

# ---- A run that is done says so and does nothing; its log does not change
cp -r whole again
train --train.save_every 4 --train.out again
expect_lines 1 stderr
expect_line 'again/checkpoints/step-00000008: already at step 8 of 8; raise train.steps$'
expect_same whole/log.jsonl again/log.jsonl
expect_same_checkpoint whole again
train --train.save_every 4 --train.out again --train.steps 4
expect_line 'already at step 8 of 4; raise train.steps$'

# ---- Another number of ranks, threads instead of processes, another micro-batch: the same global batch
for change in '--launch.ranks 1' '--launch.ranks 4' '--parallel.cp 2' '--launch.as threads' '--train.micro_batch 2'; do
    rm -rf moved
    train --train.save_every 4 --train.steps 4 --train.out moved
    train --train.save_every 4 --train.steps 8 --train.out moved $change
    expect_line '"resumed_from":4' moved/log.jsonl
    expect_near_losses whole moved 1e-5
done

# ---- --resume never starts again, --resume DIR resumes from DIR
cp -r whole begun
train --train.save_every 4 --train.out begun --resume never
expect_no_line resumed_from begun/log.jsonl
expect_steps begun 8
expect_same_losses whole begun
expect_same_checkpoint whole begun
train --train.save_every 4 --train.out elsewhere --resume whole/checkpoints/step-00000004
expect_line '"resumed_from":4' elsewhere/log.jsonl
expect_steps elsewhere 4
[ "$(losses elsewhere)" = "$(losses whole | tail -n 4)" ] || fail 'a run resumed elsewhere has other losses'
expect_same_checkpoint whole elsewhere
run "$trireme" train job.yaml --train.out foreign --resume whole/checkpoints/step-00000004 --train.precision bf16
expect_exit 2
expect_line 'train.precision \(fp32 there, bf16 here\)'
run "$trireme" train job.yaml --train.out foreign --resume whole/checkpoints/step-00000004 --model.hidden 32
expect_exit 2

# ---- A broken newest checkpoint is skipped with a warning
broken() { # WHAT COMMAND...: breaks broken/checkpoints/step-00000008
    rm -rf broken
    cp -r whole broken
    "${@:2}"
    run "$trireme" checkpoint verify broken/checkpoints/step-00000008
    [ "$code" != 0 ] || fail "verify does not see $1"
    ok "$trireme" train job.yaml --quiet --train.save_every 4 --train.out broken
    expect_line 'step-00000008 is broken and skipped'
    expect_line '"resumed_from":4' broken/log.jsonl
    expect_same_checkpoint whole broken
    ok "$trireme" checkpoint verify broken/checkpoints/step-00000008
}
newest=broken/checkpoints/step-00000008
broken 'cut weights' truncate -s -8 $newest/model.safetensors
broken 'a changed byte' patch $newest/trireme/state.safetensors 5000 '\x77\x66'
broken 'a missing file' rm $newest/trireme/state.json
broken 'a cut manifest' truncate -s 40 $newest/trireme/manifest.json
broken 'an empty config' truncate -s 0 $newest/config.json

rm -rf broken
cp -r whole broken
truncate -s 100 broken/checkpoints/step-*/model.safetensors
run "$trireme" train job.yaml --train.out broken
expect_exit 2
expect_line 'none of 2 checkpoints is valid'
finish
