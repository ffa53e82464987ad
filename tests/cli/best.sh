# best.sh -- the checkpoint of the lowest validation loss is kept, and a run whose loss stops falling ends early, also
# where it was stopped and resumed in between.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'
still='--optimizer.lr 0 --train.steps 100 --train.eval_every 2 --train.early_stopping.patience 2'

# ---- Weights that do not change: the first evaluation is the best, and two follow it
train $still --train.save_every 3 --train.keep 1 --train.keep_best true --train.out still
expect_steps still 6
expect_line '"event":"end","step":6,"reason":"done"' still/log.jsonl
[ "$(readlink still/checkpoints/best)" = step-00000002 ] || fail "best is $(readlink still/checkpoints/best)"
[ "$(readlink still/checkpoints/latest)" = step-00000006 ] || fail "latest is $(readlink still/checkpoints/latest)"
expect_file still/checkpoints/best/model.safetensors
expect_no_file still/checkpoints/step-00000003
expect_line '"best_step": 2' still/checkpoints/latest/trireme/state.json

# ---- The user learns why
run "$trireme" train job.yaml $still --train.out told
expect_exit 0
expect_line 'the run ends early: the loss [0-9.]+ of step 2 is the lowest, and 2 evaluations followed it$'

# ---- Called again it stays at its end
train $still --train.save_every 3 --train.keep 1 --train.keep_best true --train.out still
expect_steps still 6

# ---- Stopped and resumed in between
train $still --train.save_every 100 --train.steps 4 --train.out halves
train $still --train.save_every 100 --train.out halves
expect_line '"resumed_from":4' halves/log.jsonl
expect_steps halves 6

# ---- A loss that falls has its best last, and --train.keep alone decides
train --train.steps 8 --train.eval_every 2 --train.save_every 0 --train.keep 1 --train.keep_best true --train.out falls
[ "$(readlink falls/checkpoints/best)" = step-00000008 ] || fail "best is $(readlink falls/checkpoints/best)"
[ "$(ls falls/checkpoints | grep -c step)" = 1 ] || fail "checkpoints: $(ls falls/checkpoints)"

# ---- A run that resumes from before its best one has no link to a checkpoint that moved away
train --train.steps 8 --train.eval_every 2 --train.save_every 2 --train.keep 0 --train.keep_best true --train.out back
train --train.steps 4 --train.eval_every 0 --train.save_every 2 --train.keep 0 --train.out back --resume back/checkpoints/step-00000002
[ ! -L back/checkpoints/best ] || fail "best is $(readlink back/checkpoints/best)"

# ---- A threshold that no loss passes
train --train.steps 8 --train.eval_every 2 --train.early_stopping.patience 2 --train.early_stopping.threshold 100 --train.out strict
expect_steps strict 6

# ---- Without evaluations there is no best
run "$trireme" train job.yaml --train.out none --train.keep_best true --train.eval_every 0
expect_exit 2
expect_line 'train.keep_best: found true; the run makes no evaluations; valid: with data.valid'
run "$trireme" train job.yaml --train.out none --train.early_stopping.patience 3 --train.eval_every 0
expect_exit 2
expect_line 'train.early_stopping.patience: found 3; the run makes no evaluations'
finish
