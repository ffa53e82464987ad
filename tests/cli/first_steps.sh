# first_steps.sh -- what a user meets on the first day: defaults that fit together, warnings and hints that name the
# cause, help that is searched, tables that fit the terminal.
. "$(dirname "$0")/lib.sh" "$1"

cat >job.yaml <<'END'
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 20, global_batch: 4, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
launch: {ranks: 1}
END

# ---- The warm-up
ok "$trireme" explain job.yaml --lr_schedule.name constant
expect_line '^lr_schedule.warmup_steps +0 +default$' stdout
expect_lines 0 stderr
ok "$trireme" explain job.yaml
expect_line '^lr_schedule.warmup_steps +100 +default$' stdout
rises='the learning rate rises to the end of the run$'
expect_line "^trireme: warning: lr_schedule.warmup_steps is 100, and the run has 20 steps: $rises"
ok "$trireme" train job.yaml --quiet --lr_schedule.name constant --lr_schedule.warmup_steps 20
expect_line "^trireme: warning: lr_schedule.warmup_steps is 20, and the run has 20 steps: $rises"
ok "$trireme" explain job.yaml --lr_schedule.name WarmupLR --lr_schedule.warmup_num_steps 30
expect_line "^trireme: warning: lr_schedule.warmup_num_steps is 30, and the run has 20 steps: $rises"
ok "$trireme" explain job.yaml --lr_schedule.warmup_steps 19
expect_lines 0 stderr

finish
