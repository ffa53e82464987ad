# torch_words.sh -- PyTorch's keywords (`--torch FILE`, `translate torch`): those of DDP and FSDP train the same bits as the keys
# that they mean, in their sections and at the top.
. "$(dirname "$0")/lib.sh" "$1"

make_data
make_job
losses() { grep '"event":"step"' "$1/log.jsonl" | sed 's/,"tokens":.*//'; }
# same NAME KEYS...: the words of NAME.yaml train what the keys train.
same() {
    local name=$1
    shift
    ok "$trireme" train job.yaml --quiet --train.steps 5 --train.out "$name" --torch "$name.yaml"
    ok "$trireme" train job.yaml --quiet --train.steps 5 --train.out "$name-keys" "$@"
    losses "$name" >a
    losses "$name-keys" >b
    expect_lines 5 a
    expect_same a b
}
adamw='--optimizer.name adamw --optimizer.lr 2e-3 --optimizer.betas 0.9,0.999 --optimizer.eps 1e-8 --optimizer.weight_decay 0.01
    --optimizer.decay all --train.clip_grad_norm 0'

cat >ddp.yaml <<'END'
DistributedDataParallel:
  device_ids: [0]
  bucket_cap_mb: 0.01
  find_unused_parameters: true
  gradient_as_bucket_view: true
  static_graph: true
  broadcast_buffers: false
  comm_hook: powerSGD_hook
PowerSGDState: {process_group: null, matrix_approximation_rank: 2, start_powerSGD_iter: 2}
AdamW: {lr: 2e-3}
DistributedSampler: {num_replicas: 2, rank: 0, shuffle: true, seed: 3, drop_last: true}
DataLoader: {batch_size: 2, num_workers: 4, pin_memory: true}
clip_grad_norm_: {max_norm: 0.5}
END
# shellcheck disable=SC2086
same ddp $adamw --train.clip_grad_norm 0.5 --parallel.dp ddp --parallel.bucket_bytes 10486 --parallel.unused_parameters zero \
    --parallel.hook.name powersgd --parallel.hook.rank 2 --parallel.hook.start_step 2 --data.order torch --train.seed 3 \
    --train.micro_batch 2

cat >fsdp.yaml <<'END'
FullyShardedDataParallel:
  sharding_strategy: ShardingStrategy.FULL_SHARD
  auto_wrap_policy: transformer_auto_wrap_policy
  mixed_precision: {param_dtype: torch.bfloat16, reduce_dtype: torch.float32, buffer_dtype: torch.bfloat16}
  backward_prefetch: BACKWARD_PRE
  forward_prefetch: true
  cpu_offload: {offload_params: true}
  limit_all_gathers: true
  use_orig_params: true
  sync_module_states: true
optimizer: {type: AdamW, lr: 2e-3}
END
# shellcheck disable=SC2086
same fsdp $adamw --parallel.dp zero3 --train.precision bf16 --parallel.offload.weights host --parallel.offload.gradients host \
    --parallel.offload.optimizer host --parallel.offload.update host

# At the top; FSDP2's reduce_dtype is its param_dtype by default.
cat >top.yaml <<'END'
reshard_after_forward: false
mp_policy: {param_dtype: bfloat16}
bucket_cap_mb: 1
END
same top --parallel.dp zero3 --parallel.reshard_after_forward false --train.precision bf16 --train.reduce_dtype bf16 \
    --parallel.bucket_bytes 1Mi

translate() {
    echo "$1" >t.yaml
    ok "$trireme" translate torch t.yaml
}
translate 'fully_shard: {reshard_after_forward: 4, mesh: [2, 8]}'
expect_line '^  dp: zero3 +# t.yaml:1: fsdp$' stdout
expect_line '^  dp_replicate: 2 ' stdout
expect_line '^  dp_shard: 8 ' stdout
expect_line '^  reshard_after_forward: 4 ' stdout
translate 'fsdp: {device_mesh: {mesh_shape: [2, 4, 2], mesh_dim_names: [pp, fsdp, tp]}}'
expect_line '^  pp: 2 ' stdout
expect_line '^  dp_shard: 4 ' stdout
expect_line '^  tp: 2 ' stdout
translate 'fsdp: {sharding_strategy: HYBRID_SHARD}'
expect_line '^# t.yaml:1: fsdp.sharding_strategy: found a hybrid strategy without a device_mesh' stdout
translate 'SGD: {lr: 0.1, momentum: 0.9}'
expect_line '^  momentum: 0.9 ' stdout
expect_line "^  weight_decay: 0 +# PyTorch's default of weight_decay$" stdout
translate 'sharding_strategy: SHARD_GRAD_OP'
expect_line '^  dp: zero2 +# t.yaml:1: sharding_strategy$' stdout

wrong() { # WORDS REGEX
    echo "$1" >t.yaml
    refused 2 "^trireme: t.yaml:1: $2" "$trireme" translate torch t.yaml
}
wrong 'bucket_cap: 25' 'bucket_cap: unknown key; did you mean bucket_cap_mb\?$'
wrong 'ddp: {find_unused_parameter: true}' 'ddp.find_unused_parameter: unknown key; did you mean find_unused_parameters\?$'
wrong 'fsdp: {ignored_modules: [head]}' 'fsdp.ignored_modules: found \[head\]; no parameter stands outside'
wrong 'ddp: {comm_hook: noop_hook}' 'ddp.comm_hook: found noop_hook, which has no equal here; valid: allreduce_hook, '
wrong 'SGD: {nesterov: true}' 'SGD.nesterov: found true; it is another optimizer'
wrong 'SGD: {betas: [0.9, 0.99]}' 'SGD.betas: found \[0.9, 0.99\], but torch.optim.SGD has no such keyword; valid: lr, momentum, '
wrong 'Adam: {lr: 1e-3, momentum: 0.9}' 'Adam.momentum: found 0.9, but torch.optim.Adam has no such keyword; valid: lr, betas, '
wrong 'optimizer: {type: AdamW, nesterov: false}' 'optimizer.nesterov: found false, but torch.optim.AdamW has no such keyword'
wrong 'optimizer: {type: RMSprop}' 'optimizer.type: found RMSprop, which has no equal here; valid: AdamW, Adam, SGD$'
wrong 'fsdp: {device_mesh: [1, 2, 3]}' 'fsdp.device_mesh: valid: a list of one or two sizes'
wrong 'fsdp: {device_mesh: {mesh_shape: [2], mesh_dim_names: [rows]}}' 'fsdp.device_mesh: valid: sizes from 1 of the dimensions'
wrong 'offload_policy: []' 'offload_policy: valid: true, false, CPUOffloadPolicy, '
wrong 'fsdp: {cpu_offload: disk}' 'fsdp.cpu_offload: valid: true, false, CPUOffloadPolicy, '
wrong 'reshard_after_forward: maybe' 'reshard_after_forward: found maybe; valid: true, false, or a number of ranks from 2$'
wrong 'MixedPrecision: {param_dtype: torch.int8}' 'MixedPrecision.param_dtype: found torch.int8; valid: float32, '
finish
