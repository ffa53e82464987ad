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
sed -n 1p a >first_step
expect_line '"lr":0$' first_step

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

# ---- Conversations: the command of a system trains what the keys train
golden=${0%/*}/../golden/sft
cat >first.yaml <<END
model: {family: llama, layers: 2, hidden: 16, heads: 2, kv_heads: 1, ffn: 24, vocab: 360, max_seq: 128}
data: {train: mock, seq_len: 16}
train: {steps: 1, global_batch: 1, save_every: 1, eval_every: 0, out: first}
launch: {ranks: 1}
END
ok "$trireme" train first.yaml --quiet
cp -RL first/checkpoints/latest model
rm -R model/trireme
cp "$golden"/tokenizer.json "$golden"/tokenizer_config.json "$golden"/chat_template.jinja model/
cat >sft.yaml <<END
model_name_or_path: model
dataset_name: $golden/messages.jsonl
assistant_only_loss: true
packing: true
max_length: 128
per_device_train_batch_size: 2
bf16: false
use_cpu: true
max_steps: 3
learning_rate: 1e-2
lr_scheduler_type: constant
output_dir: of_trl
END
keys="--model.path model --data.train $golden/messages.jsonl --data.seq_len 128 --data.truncate keep_start --data.order torch
    --train.steps 3 --train.micro_batch 2 --train.accumulation 1 --train.seed 42 --optimizer.lr 1e-2 --optimizer.betas 0.9,0.999
    --optimizer.weight_decay 0 --lr_schedule.name constant --parallel.recompute full --train.eval_every 0 --launch.ranks 2"
echo '{}' >empty.yaml
ok "$trireme" trl sft --config sft.yaml --quiet --launch.ranks 2
# shellcheck disable=SC2086 # words
ok "$trireme" train empty.yaml --quiet $keys --train.out of_keys
expect_steps of_trl 3
expect_same_losses of_trl of_keys
ok "$trireme" trl sft --config sft.yaml --use_peft --lora_r 2 --lora_target_modules all-linear --quiet --launch.ranks 2 \
    --output_dir of_adapter
expect_line '"r": 2' of_adapter/checkpoints/latest/adapter_config.json

# The same conversations as LLaMA-Factory names them.
cp "$golden"/messages.jsonl chats.jsonl
echo '{"chats": {"file_name": "chats.jsonl", "formatting": "openai"}}' >dataset_info.json
cat >lf.yaml <<END
model_name_or_path: model
template: own
stage: sft
finetuning_type: full
dataset_dir: .
dataset: chats
neat_packing: true
cutoff_len: 128
per_device_train_batch_size: 2
use_cpu: true
max_steps: 3
learning_rate: 1e-2
lr_scheduler_type: constant
output_dir: of_llamafactory
END
ok "$trireme" llamafactory-cli train lf.yaml --quiet --launch.ranks 2
expect_same_losses of_trl of_llamafactory
cat >axolotl.yaml <<END
base_model: model
datasets: [{path: chats.jsonl, type: chat_template}]
chat_template: tokenizer_default
sequence_len: 128
sample_packing: true
excess_length_strategy: truncate
micro_batch_size: 2
max_steps: 3
optimizer: adamw_torch
learning_rate: 1e-2
lr_scheduler: constant
bf16: false
tf32: false
output_dir: of_axolotl
END
ok "$trireme" axolotl train axolotl.yaml --quiet --launch.ranks 2
expect_same_losses of_trl of_axolotl

# ---- Preferences
cat >dpo.yaml <<END
model_name_or_path: model
dataset_name: $golden/preference.jsonl
max_length: 64
per_device_train_batch_size: 2
bf16: false
use_cpu: true
max_steps: 2
beta: 0.2
learning_rate: 1e-3
output_dir: of_dpo
END
ok "$trireme" trl dpo --config dpo.yaml --quiet --launch.ranks 2
expect_steps of_dpo 2
expect_line 'beta: 0.2' of_dpo/job.yaml
expect_line 'seq_len: 128' of_dpo/job.yaml
finish
