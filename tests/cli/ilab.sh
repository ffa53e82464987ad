# ilab.sh -- `trireme ilab model train`: InstructLab's flags and its config.yaml in place of a job file, which train the same
# bits as the keys that they mean, and `translate instructlab`.
. "$(dirname "$0")/lib.sh" "$1"

export HOME=$scratch/home
unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME ILAB_GLOBAL_CONFIG
mkdir -p home/.config/instructlab
make_data
make_job
ok "$trireme" train job.yaml --quiet --train.steps 1 --train.save_every 1 --train.out first
model=first/checkpoints/step-00000001
losses() { grep '"event":"step"' "$1/log.jsonl" | sed 's/,"tokens":.*//'; }

# ---- The flags train what the keys train
flags="--data-path toy --model-path $model --max-seq-len 16 --effective-batch-size 4 --gpus 2 --learning-rate 1e-2
    --warmup-steps 2 --save-samples 8 --ckpt-output-dir flags"
# shellcheck disable=SC2086
ok "$trireme" ilab model train $flags --quiet --train.steps 6
cat >keys.yaml <<END
model: {path: $model}
data: {train: toy, seq_len: 16}
train: {steps: 6, global_batch: 4, seed: 42, precision: fp32, clip_grad_norm: 1.0, save_every: 2, keep: 0, out: keys}
optimizer: {name: adamw, lr: 1e-2, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0}
lr_schedule: {name: cosine, warmup_steps: 2, min_ratio: 0}
parallel: {dp: zero3, recompute: full}
launch: {ranks: 2, device: cpu}
END
ok "$trireme" train keys.yaml --quiet
losses flags >a
losses keys >b
expect_same a b
expect_lines 6 a
expect_file flags/checkpoints/step-00000002
expect_same flags/checkpoints/step-00000006/model.safetensors keys/checkpoints/step-00000006/model.safetensors

# ---- Flags win over the file in its default place, the file over InstructLab's defaults, and a key over all
cat >home/.config/instructlab/config.yaml <<END
chat: {model: none}
train:
  model_path: $model
  data_path: toy
  max_seq_len: 16
  effective_batch_size: 8
  num_epochs: 3
  nproc_per_node: 2
  save_samples: 0
  ckpt_output_dir: $scratch/place
  additional_args: {learning_rate: 5e-3, deepspeed_cpu_oddload_optimizer_ratio: 1}
version: 1.0.0
END
ok "$trireme" ilab model train --effective-batch-size 4 --quiet --train.steps 2
expect_line '"global_batch":4|global_batch: 4' place/job.yaml
expect_line 'lr: 0?.?005' place/job.yaml
expect_line 'warmup_steps: 25' place/job.yaml
expect_line 'config.yaml:11: train.additional_args.deepspeed_cpu_oddload_optimizer_ratio: unknown key, which InstructLab ignores; did you mean deepspeed_cpu_offload_optimizer_ratio\?$'
mv home/.config/instructlab/config.yaml elsewhere.yaml
for named in "env ILAB_GLOBAL_CONFIG=elsewhere.yaml $trireme ilab model train" "$trireme ilab model train --config elsewhere.yaml" \
    "$trireme ilab --config elsewhere.yaml model train" "$trireme ilab model --config=elsewhere.yaml train" \
    "$trireme ilab --config missing.yaml model train --config elsewhere.yaml"; do
    # shellcheck disable=SC2086
    refused 2 '^trireme: --strategy: found lab-skills-only; training in phases is planned' $named --strategy lab-skills-only
    # shellcheck disable=SC2086
    refused 2 '^trireme: elsewhere.yaml:6: train.effective_batch_size: train.global_batch: found 8, not a multiple of' \
        $named --gpus 3 --quiet
done

# ---- One line says what is missing, and names flags as they are written
ilab() { refused 2 "$1" "$trireme" ilab model train --model-path "$model" "${@:2}"; }
ilab '^trireme: --data-path: found train.jsonl; valid: FILE.jsonl with messages, or PREFIX of token shards' \
    --data-path train.jsonl
ilab '^trireme: --data-pth: unknown option of InstructLab; did you mean --data-path\?$' --data-pth toy
ilab '^trireme: --strategy: found lab-multiphase; training in phases is planned' --strategy lab-multiphase
ilab '^trireme: --4-bit-quant: found true; it belongs to the pipeline simple; valid: --lora-rank N' --4-bit-quant
ilab '^trireme: --pipeline: found simple, which has no equal here; valid: full, accelerated$' --pipeline simple
ilab '^trireme: --device: found hpu, which has no equal here; valid: cpu, cuda$' --device hpu
ilab '^trireme: --num-epochs: found many; valid: a whole number from 1$' --num-epochs many
ilab '^trireme: --nnodes: found 2; valid: trireme translate instructlab config.yaml >job.yaml, then on each host ' \
    --data-path toy --nnodes 2
ilab '^trireme: --config: needs a value \(FILE\)$' --config
refused 2 '^trireme: --config: needs a value \(FILE\)$' "$trireme" ilab --config
refused 2 "^trireme: there is no command 'ilab modle', did you mean 'model'; " "$trireme" ilab --config elsewhere.yaml modle
refused 2 '^trireme: --model-path: found m.gguf; valid: a HuggingFace folder, which trireme checkpoint import makes' "$trireme" ilab model train --model-path m.gguf
refused 2 "^trireme: InstructLab's train.data_path: not given, " "$trireme" ilab model train
refused 2 "InstructLab's default of train.model_path: model.path: .*home/.cache/instructlab/models/instructlab/granite-7b-lab" \
    "$trireme" ilab model train --data-path toy

# An error about their default names the file that leaves the key out.
echo "train: {data_path: toy, model_path: $model}" >long.yaml
refused 2 "^trireme: long.yaml: InstructLab's default of train.max_seq_len: data.seq_len: found 4096; " \
    "$trireme" ilab model train --config long.yaml

# ---- Backends and their offload
translate() {
    printf 'train: {%s}\n' "$1" >t.yaml
    ok "$trireme" translate instructlab t.yaml
}
translate 'distributed_backend: deepspeed, deepspeed_cpu_offload_optimizer: true, device: cuda'
expect_line '^  dp: zero2 +# t.yaml:1: train.distributed_backend \(stage 2 is fixed in its library\)$' stdout
expect_line '^    optimizer: host ' stdout
expect_line '^  precision: bf16 ' stdout
translate 'fsdp_cpu_offload_optimizer: true, nproc_per_node: 4, additional_args: {nnodes: 2}'
expect_line '^    weights: host ' stdout
expect_line '^  dp_shard: 4 ' stdout
expect_line '^  dp_replicate: 2 ' stdout
expect_line '^  ranks: 8 ' stdout
translate 'checkpoint_at_epoch: true, data_path: x.json'
expect_line '^  save_every: 3906 +# InstructLab.s default of train.save_samples \(samples become steps\)$' stdout
expect_line '^# t.yaml:1: train.data_path: found x.json; valid: FILE.jsonl' stdout
translate 'data_path: x.jsonl, lora_rank: 4'
expect_line '^  train: x.jsonl +# t.yaml:1: train.data_path$' stdout
expect_line '^  format: instructlab +# t.yaml:1: train.data_path$' stdout
expect_line '^  rank: 4 +# t.yaml:1: train.lora_rank$' stdout
expect_line '^  storage: nf4 +# InstructLab.s default of train.lora_quantize_dtype$' stdout

# ---- The keys of articles, which InstructLab does not read
translate 'num_gpus: 4, batch_size: 8, gradient_accumulation_steps: 4, effective_batch_size: 128, mixed_precision: bf16,
    gradient_checkpointing: false, deepspeed: {enabled: true, zero_stage: 3}, model: {base: granite-7b-base, max_seq_length: 64}'
for line in '^  micro_batch: 8 +# t.yaml:1: train.batch_size \(InstructLab has no such key' '^  accumulation: 4 ' '^  dp: zero3 ' \
    '^  recompute: none ' '^  ranks: 4 +# t.yaml:1: train.num_gpus \(InstructLab.s key is nproc_per_node\)$' \
    '^  path: "?~/.cache/instructlab/models/granite-7b-base"? +# t.yaml:2: train.model.base ' '^  seq_len: 64 '; do
    expect_line "$line" stdout
done
echo '{"gradient_clipping": 0.5, "zero_optimization": {"stage": 1}}' >ds.json
translate 'deepspeed: {enabled: true, config_path: ds.json}'
expect_line '^  clip_grad_norm: 0.5 +# ds.json:1: gradient_clipping$' stdout
finish
