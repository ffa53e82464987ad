# group_norms.sh -- observe.grad_norm_by_group: each step has the gradient norm of every entry of groups, equal under every way
# to divide the work, and the training is what it is without. The squares add up to that of grad_norm.
. "${0%/*}/lib.sh" "$1"
make_data
make_job 'family: llama, layers: 2, hidden: 16, heads: 2, kv_heads: 2, vocab: 320, max_seq: 16, tie_embeddings: true'
cat >>job.yaml <<'END'
groups:
  - {match: '*norm*', weight_decay: 0}
  - {match: '*.o_proj.*', trainable: false}
  - {match: '*.mlp.*', lr_scale: 2}
  - {match: '*.mlp.down_proj.*', lr_scale: 3}
END
always='--train.steps 4 --train.global_batch 8 --train.micro_batch 2 --train.save_every 0 --train.eval_every 0 --observe.tensorboard'

# STEP NAME NORM of each group of each step; "all" is grad_norm.
norms() { # RUN
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"grad_norm":\([^,]*\),.*"grad_norm_by_group":{\([^}]*\)}.*/\1 "all":\2,\3/p' "$1/log.jsonl" |
        awk '{ n = split(substr($0, index($0, " ") + 1), part, ","); for (i = 1; i <= n; i++) { at = index(part[i], "\":"); print $1, substr(part[i], 2, at - 2), substr(part[i], at + 2) } }'
}
# The squares of the groups of a step add up to that of all.
adds_up() {
    awk '{ s = $NF * $NF; if ($2 == "all") all[$1] = s; else sum[$1] += s }
        END { for (i in all) { d = all[i] - sum[i]; if (d < 0) d = -d; if (!(d <= 1e-9 * all[i])) bad = 1; n++ } exit bad || n != 4 }' "$1"
}

train $always --launch.ranks 1 --train.out plain
expect_no_line 'grad_norm_by_group' plain/log.jsonl
while read -r name ranks overrides; do
    # shellcheck disable=SC2086
    train $always --launch.ranks "$ranks" --observe.grad_norm_by_group --train.out "$name" $overrides
    norms "$name" >"$name.norms"
    expect_lines 16 "$name.norms" # all, two entries that train and match something, and the rest; of 4 steps
    adds_up "$name.norms" || fail "the norms of $name do not add up: $(cat "$name.norms")"
    paste one.norms "$name.norms" | awk '{ n = NF / 2; d = $n - $NF; if (d < 0) d = -d; if ($2 != $(n + 2) || !(d <= 1e-4 * $n)) exit 1 }' ||
        fail "the norms of $name are not those of one rank: $(paste one.norms "$name.norms" | head -n 4)"
done <<'END'
one 1
ddp 2
zero1 2 --parallel.dp zero1
zero2 2 --parallel.dp zero2
zero3 4 --parallel.dp zero3
hsdp 4 --parallel.dp zero3 --parallel.dp_replicate 2
tp 2 --parallel.tp 2
sp 2 --parallel.tp 2 --parallel.sequence_parallel true
pp 2 --parallel.pp 2
files 2 --parallel.dp zero3 --parallel.offload.weights file --parallel.offload.gradients file --parallel.offload.optimizer file --parallel.offload.path .
END
expect_line '^1 \*norm\* ' one.norms
expect_line '^1 \*\.mlp\.\* ' one.norms
expect_line '^1 no group ' one.norms
expect_no_line 'o_proj|down_proj' one.norms
for run in plain one; do grep -o '"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*' $run/log.jsonl >$run.steps; done
expect_lines 4 plain.steps
expect_same plain.steps one.steps

# Norms of which one is missing do not add up, so the comparison above means something.
grep -v ' \*norm\* ' one.norms >less.norms
! adds_up less.norms || fail "one group less adds up to the same"

grep -aq 'train/grad_norm/\*norm\*' one/tensorboard/events.out.tfevents.* || fail "TensorBoard has no norm of a group"
! grep -aq 'train/grad_norm/' plain/tensorboard/events.out.tfevents.* || fail "TensorBoard has a norm that nobody asked for"

# Of adapters, each entry counts what is trained of it; the base is frozen.
train $always --train.out lora --lora.rank 2 --observe.grad_norm_by_group --observe.textfile lora.prom
norms lora >lora.norms
expect_lines 12 lora.norms
adds_up lora.norms || fail "the norms of adapters do not add up: $(cat lora.norms)"
expect_line "^trireme_group_grad_norm\{run=\"$scratch/lora\",group=\"\*\.mlp\.\*\"\} [0-9.e-]+\$" lora.prom
finish
