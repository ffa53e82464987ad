# fine_tuners.sh -- configurations of transformers' Trainer and of fine-tuning systems: a run with a file is the run with the
# keys that it means, and the commands of these systems take the same files in place of a job file.
. "${0%/*}/lib.sh" "$1"

export HF_HUB_CACHE=$scratch/hub
make_data
make_job
losses() { grep '"event":"step"' "$1/log.jsonl" | sed 's/,"tokens":.*//'; }

# ---- A file of the Trainer over a job
cat >args.json <<'END'
{
  "output_dir": "with_file",
  "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2,
  "learning_rate": 2e-3, "weight_decay": 0.01, "adam_beta2": 0.95,
  "lr_scheduler_type": "cosine", "warmup_ratio": 0.3, "max_steps": 6,
  "fsdp": "full_shard auto_wrap", "gradient_checkpointing": true,
  "report_to": ["wandb"], "save_strategy": "no", "seed": 7
}
END
sed -i '/^optimizer/d; /^lr_schedule/d; /^train/d; /^parallel/d' job.yaml
ok "$trireme" train job.yaml --quiet --trainer args.json
expect_line 'args.json:7: report_to: found wandb; log.jsonl in train.out has these values' # a warning
cat >keys.yaml <<'END'
train: {steps: 6, micro_batch: 1, accumulation: 2, seed: 7, precision: fp32, clip_grad_norm: 1.0, eval_every: 0,
    save_every: 1000000000, keep: 0, out: with_keys}
optimizer: {name: adamw, lr: 2e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.01}
lr_schedule: {name: OptimizerParamScheduler, lr_decay_style: cosine, lr_warmup_steps: 2, min_lr: 0, init_lr: 0}
parallel: {dp: zero3, recompute: full}
END
cat job.yaml >>keys.yaml
sed -i 's/seq_len: 16/seq_len: 16, order: torch/' keys.yaml
ok "$trireme" train keys.yaml --quiet
losses with_file >a
losses with_keys >b
expect_same a b
expect_lines 6 a
# The first step of transformers' warm-up has the rate 0.
sed -n 1p a >first
expect_line '"lr":0$' first

# The rates follow from a share of the run, and explain says where each value comes from.
ok "$trireme" explain job.yaml --trainer args.json --trainer.max_steps 20
expect_line '^lr_schedule.warmup_ratio +0.3 +args.json:5: warmup_ratio' stdout
expect_line '^train.steps +20 ' stdout

# ---- Options that a script gives
cat >run.sh <<'END'
#!/bin/bash
OUT=of_script
torchrun --nproc_per_node=2 run_clm.py --output_dir $OUT --learning_rate 2e-3 --max_steps 3 \
    --per_device_train_batch_size 2 --bf16
END
ok "$trireme" translate trainer run.sh
expect_line '^  ranks: 2 +# run.sh:3: launcher.nproc_per_node$' stdout
expect_line '^  precision: bf16 +# run.sh:4: bf16$' stdout
expect_line '^  out: of_script +# run.sh:3: output_dir' stdout

# ---- The commands of the systems
refused 2 '^trireme: --learing-rate: unknown option of TRL; did you mean --learning-rate\?$' "$trireme" trl sft --learing_rate 1
refused 2 '^trireme: --config: needs a value' "$trireme" trl sft --config
refused 2 "there is no command 'trl grpo', did you mean 'orpo'" "$trireme" trl grpo
refused 2 '^trireme: train: needs a file: llamafactory train FILE$' "$trireme" llamafactory-cli train
refused 2 'missing.yml' "$trireme" axolotl train missing.yml
printf 'base_model: m\nrl: grpo\n' >wrong.yml
refused 2 '^trireme: wrong.yml:2: rl: found grpo, which has no equal here' "$trireme" axolotl train wrong.yml
refused 2 '^trireme: wrong.yml:2: rl: found grpo' "$trireme" translate axolotl wrong.yml
finish
