# translate.sh -- configurations of other systems: `trireme translate` prints the job of a DeepSpeed file, `--deepspeed`
# lays the file over a job, explain names file, line and key, and a run with the file is the run with the keys.
. "${0%/*}/lib.sh" "$1"

make_data
make_job
cat >ds.json <<'END'
{
  // four sequences a step
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 2,
  "gradient_clipping": 0.5,
  "zero_optimization": {"stage": 3, "overlap_comm": true},
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 2e-3, "weight_decay": 0.01}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4, "warmup_max_lr": 2e-3}},
  "wall_clock_breakdown": false,
  "tensorboard": {"enabled": true}
}
END
sed -i '/^optimizer/d; /^lr_schedule/d; s/global_batch: 4, micro_batch: 1, //' job.yaml
keys='--train.micro_batch 1 --train.accumulation 2 --train.clip_grad_norm 0.5 --parallel.dp zero3 --train.precision bf16
    --optimizer.lr 2e-3 --optimizer.weight_decay 0.01 --optimizer.betas 0.9,0.999 --optimizer.eps 1e-8
    --optimizer.decay all --lr_schedule.name WarmupLR --lr_schedule.warmup_num_steps 4
    --lr_schedule.warmup_max_lr 2e-3 --checks.nonfinite skip'

# ---- The job of a file
ok "$trireme" translate deepspeed ds.json
expect_line '^  accumulation: 2 +# ds.json:4: gradient_accumulation_steps$' stdout
expect_line '^  dp: zero3 +# ds.json:6: zero_optimization.stage$' stdout
expect_line '^  betas: \[0.9, 0.999\] +# DeepSpeed.s default of optimizer.params.betas' stdout
expect_line '^# ds.json:11: tensorboard.enabled: found true; log.jsonl in train.out has these values$' stdout
expect_no_line 'wall_clock_breakdown' stdout
cp stdout translated.yaml
# OneCycle moves the first beta, and sets the second one.
cat >cycle.json <<'END'
{"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.8, 0.95]}},
 "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}}}
END
ok "$trireme" translate deepspeed cycle.json
expect_line '^  betas: \[0.9, 0.99\] +# cycle.json:2: scheduler.type ' stdout
ok "$trireme" translate deepspeed ds.json --json
expect_line '"zero_optimization.stage3_max_live_parameters": 1000000000' stdout
expect_line '"origin": "ds.json:6: zero_optimization.stage"' stdout

# The printed job trains as it is, with a model and data.
cat translated.yaml - >whole.yaml <<'END'
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0}
data: {train: toy, seq_len: 16}
launch: {ranks: 2}
END
ok "$trireme" train whole.yaml --quiet --train.steps 5 --train.save_every 0 --train.out whole

# ---- Five steps with the file are five steps with the keys
ok "$trireme" train job.yaml --quiet --deepspeed ds.json --train.steps 5 --train.out with_file
expect_line 'ds.json:11: tensorboard.enabled: found true' # a warning
# shellcheck disable=SC2086 # words
ok "$trireme" train job.yaml --quiet $keys --train.steps 5 --train.out with_keys
expect_steps with_file 5
for one in with_file whole; do
    expect_same_losses $one with_keys
    for run in $one with_keys; do sed 's/^  out: .*//' $run/job.yaml >$run.yaml; done
    [ $one = whole ] || expect_same $one.yaml with_keys.yaml # the whole job, defaults included
done
steps() { sed -n 's/^\({"event":"step".*"lr":[^,]*\).*/\1/p' "$1/log.jsonl"; }
[ "$(steps with_file)" = "$(steps with_keys)" ] || fail 'the lines of the steps differ'

# ---- Origins, and which value wins: their default, then the job file, then their value, then the command line
ok "$trireme" explain job.yaml --deepspeed ds.json --optimizer.lr 1 --json
expect_line '"origin": "ds.json:6: zero_optimization.stage"' stdout
expect_line '"origin": "command line"' stdout
ok "$trireme" explain job.yaml --deepspeed=ds.json
expect_line 'train.global_batch +4 +.*micro_batch x train.accumulation x data-parallel ranks' stdout
expect_line 'optimizer.eps +1.0e-08 +.*default of optimizer.params.eps' stdout
printf 'optimizer: {eps: 1e-7, lr: 5}\n' >>job.yaml
ok "$trireme" explain job.yaml --deepspeed=ds.json
expect_line 'optimizer.eps +1.0e-07 +.*job.yaml:' stdout
expect_line 'optimizer.lr +0.002 +.*ds.json:8' stdout

# The steps of gradient accumulation, which follow from the batch, or are those that a file gives
ok "$trireme" explain job.yaml --train.global_batch 8 --train.micro_batch 1 --launch.ranks 2
expect_line '^train.accumulation +4 +train.global_batch / \(train.micro_batch x data-parallel ranks\)$' stdout
ok "$trireme" explain job.yaml --deepspeed=ds.json --launch.ranks 2
expect_line '^train.accumulation +2 +ds.json:4: gradient_accumulation_steps$' stdout

# ---- Base64 in place of a path
ok "$trireme" translate deepspeed "$(base64 -w 0 <ds.json | tr '+/' '-_')"
expect_line '^  dp: zero3 +# base64:6: zero_optimization.stage$' stdout

# ---- Refused, in one line that names file, line and key
wrong() { # JSON PATTERN
    printf '%s\n' "$1" >wrong.json
    refused 2 "^trireme: wrong.json:[0-9]+: $2" "$trireme" translate deepspeed wrong.json
}
wrong '{"fp16": {"enable": true}}' 'fp16.enable: unknown key; did you mean enabled\?$'
wrong '{"train_batch_size": 4, "train_batch_size": 8}' 'key train_batch_size is given twice; the first is in line 1$'
wrong '{"train_batch_size": "8"}' 'train_batch_size: found "8"; valid: a whole number from 1 without quotes$'
wrong '{"train_batch_size": 4.5}' 'train_batch_size: found 4.5; valid: a whole number'
wrong '{"zero_optimization": {"offload_optimizer": true}}' 'zero_optimization.offload_optimizer: found true; valid: a section$'
wrong '{"zero_optimization": {"aio": {}}}' 'zero_optimization.aio: unknown key'
wrong '{"fp16": {"enabled": "true"}, "bf16": {"enabled": true}}' 'fp16.enabled: found true beside bf16.enabled'
wrong '{"optimizer": {"type": "Lamb"}}' 'optimizer.type: found Lamb, which has no equal here; valid: Adam'
wrong '{"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}}' \
    'scheduler.params.total_num_steps: not a parameter of WarmupLR, which refuses it; valid: warmup_min_lr'
# MiCS shards within groups of ranks; the line says by which keys.
wrong '{"zero_optimization": {"stage": 3, "mics_shard_size": 4}}' \
    'zero_optimization.mics_shard_size: found 4; valid: parallel.dp_shard 4 and parallel.dp_replicate ranks / 4 of the job$'
wrong '{"train_batch_size": CONFIG_BATCH_SIZE,
}' 'train_batch_size: found CONFIG_BATCH_SIZE: this file is a template'
wrong '{"num-layers": 2}' 'num-layers: found a key of GPT-NeoX'
wrong '{"zero_optimization": {"stage": [0, 1]}}' 'zero_optimization.stage: found a list, which GPT-NeoX'
wrong '{"expert_parallel": {"enabled": true}}' 'expert_parallel.enabled: found true; mixtures of experts'
wrong '{"zero_optimization": {"stage": 2,git l' 'broken JSON: '
wrong '{"train_batch_size": 4, "elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}' \
    'train_batch_size: given beside elasticity'
printf 'apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n' >pod.yaml
refused 2 '^trireme: pod.yaml:2: kind: found PyTorchJob, a manifest of Kubernetes' "$trireme" translate deepspeed pod.yaml
refused 2 '^trireme: found system deepsped; valid: deepspeed' "$trireme" translate deepsped ds.json
refused 2 'missing.json' "$trireme" translate deepspeed missing.json
refused 2 '^trireme: --deepspeed: needs a file of DeepSpeed$' "$trireme" train job.yaml --deepspeed
sed 's/"train_micro_batch_size_per_gpu": 1/"train_batch_size": 3/' ds.json >three.json
refused 2 'train.global_batch: found 3, not a multiple of 2 ranks.*DeepSpeed: train_batch_size' \
    "$trireme" train job.yaml --deepspeed three.json

finish
