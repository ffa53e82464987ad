# accelerate_launch.sh -- `trireme accelerate launch`, and what files of HuggingFace Accelerate mean (translate accelerate).
# golden/accelerate_launch/expected has the environment that the real `accelerate launch` gives its workers.
golden=$(cd "$(dirname "$0")/../golden/accelerate_launch" && pwd)
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS TRIREME_SECRET_FILE XDG_CACHE_HOME
export HF_HOME=$PWD/hub

cat >worker.sh <<'END'
#!/bin/sh
echo "${WORLD_SIZE-0} ${RANK-0} $*" >>ranks
[ "${RANK-0}" = 0 ] && env >environment
exit 0
END
chmod +x worker.sh
cp "$golden"/*.yaml .

# ---- The same environment as Accelerate's
# Variables that torchrun sets, and those of this shell, are not compared.
check_case() { # LINE; `want` has what is expected
    rm -f ranks environment
    eval "set -- $1"
    run "$trireme" accelerate launch "$@" ./worker.sh one
    expect_exit 0
    { echo "ranks $(head -n 1 ranks | cut -d ' ' -f 1)"
      grep -E '^(ACCELERATE|FSDP|MEGATRON_LM|PARALLELISM_CONFIG|KMP|OMP|CUDA_VISIBLE)_' environment | grep -v '^CUDA_VISIBLE_DEVICES=$' | sort
    } >found
    # torchrun itself sets OMP_NUM_THREADS for several ranks.
    grep -q ^OMP_NUM_THREADS want || sed -i /^OMP_NUM_THREADS=1$/d found
    cmp -s found want || fail "$*: $(diff want found | tr '\n' ' ')"
}
while read -r line; do
    awk -v "head=# $line" '/^#/ { on = $0 == head; next } on' "$golden/expected" >want
    [ -s want ] || fail "no golden values of $line"
    check_case "$line"
done <"$golden/cases"

# ---- Which file is read
mkdir -p hub/accelerate
printf 'distributed_type: MULTI_CPU\nnum_processes: 2\n' >hub/accelerate/default_config.yaml
rm -f ranks
run "$trireme" accelerate launch ./worker.sh a 'b c'
expect_exit 0
printf '%s\n' '2 0 a b c' '2 1 a b c' >want
sort ranks | cmp -s - want || fail "default file: $(cat ranks)"
rm ranks
run "$trireme" accelerate launch --cpu ./worker.sh
[ "$(cat ranks)" = '0 0 ' ] || fail "--cpu leaves the default file out: $(cat ranks)"
rm -r hub ranks
run "$trireme" accelerate launch --num_processes 2 ./worker.sh
expect_exit 0
[ "$(sort ranks | head -n 1)" = '2 0 ' ] || fail "two processes without a file: $(cat ranks)"
expect_line '^ACCELERATE_USE_CPU=True' environment
run "$trireme" accelerate launch --config_file none.yaml ./worker.sh
expect_exit 2
expect_line 'cannot open none.yaml'

# ---- Two machines, as two launchers on this one
port=29841
printf 'distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 4\nmain_process_ip: 127.0.0.1\n' >two.yaml
for backend in static c10d; do
    rm -f ranks
    timeout 120 "$trireme" accelerate launch --config_file two.yaml --main_process_port $port --rdzv_backend $backend \
        --machine_rank 1 ./worker.sh >other 2>&1 </dev/null &
    run "$trireme" accelerate launch --config_file two.yaml --main_process_port $port --rdzv_backend $backend ./worker.sh
    expect_exit 0
    wait $! || fail "machine 1 with $backend: $(cat other)"
    [ "$(sort ranks | tr -d '\n')" = '4 0 4 1 4 2 4 3 ' ] || fail "$backend: $(cat ranks)"
    port=$((port + 1))
done

# ---- What Accelerate refuses
refuses() { # EXPRESSION, lines of a file on stdin
    cat >refused.yaml
    run "$trireme" translate accelerate refused.yaml
    expect_exit 2
    expect_line "$1"
    run "$trireme" accelerate launch --config_file refused.yaml ./worker.sh
    expect_exit 2
    expect_line "$1"
}
refuses 'refused.yaml: distributed_type: missing; valid: NO, ' <<<'num_processes: 1'
refuses 'refused.yaml:2: num_proceses: unknown key; did you mean num_processes' <<<$'distributed_type: NO\nnum_proceses: 1'
refuses 'compute_environment: found AMAZON_SAGEMAKER; valid: LOCAL_MACHINE' <<<$'ec2_instance_type: a\ncompute_environment: AMAZON_SAGEMAKER\ndistributed_type: NO'
refuses 'distributed_type: found XLA; .*no device for TPUs' <<<'distributed_type: XLA'
refuses 'distributed_type: found SOMETHING; valid: NO, MULTI_CPU' <<<'distributed_type: SOMETHING'
refuses 'gpu_ids: found 0; valid for MULTI_GPU' <<<$'distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: "0"'
refuses 'fsdp_sync_module_states: found false; valid: true' <<<$'distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_sync_module_states: false}'
refuses 'valid for FSDP2: SHARDED_STATE_DICT' <<<$'distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2, fsdp_state_dict_type: LOCAL_STATE_DICT}'
refuses 'deepspeed_config_file: found beside zero_stage, offload_param_device, mixed_precision; valid' <<<$'distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: bf16\ndeepspeed_config: {deepspeed_config_file: ds.json, zero_stage: 3, offload_param_device: cpu}'
refuses 'cp_size: found 2 beside parallelism_config_sp_size: 2' <<<$'distributed_type: FSDP\nnum_processes: 4\nfsdp_config: {fsdp_version: 2}\nparallelism_config: {parallelism_config_cp_size: 2, parallelism_config_sp_size: 2}'
refuses 'product 4; valid: 8' <<<$'distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\nparallelism_config: {parallelism_config_dp_shard_size: 4}'
for flags in '--cpu --multi_gpu' '--tpu' '--multi_gpu --num_processes 1' '--use_parallelism_config' '--mpirun_hostfile f' '--module --no_python'; do
    run "$trireme" accelerate launch $flags ./worker.sh
    expect_exit 2
done
run "$trireme" accelerate launch --num_procesess 2 ./worker.sh
expect_line 'did you mean --num-processes'
run "$trireme" accelerate launch --config_file ddp.yaml --num_machines 2 ./worker.sh
expect_line '^trireme: ddp.yaml: main_process_ip: missing; valid for 2 machines'
run "$trireme" accelerate launch --config_file ddp.yaml --num_processes 3 --num_machines 2 ./worker.sh
expect_line '^trireme: --num-processes: found 3 on 2 machines; valid: a multiple of num_machines$'
# DeepSpeed's default launcher reaches other machines by pdsh, which has no equal here.
printf 'distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 2\ndeepspeed_config: {%s}\n' \
    'deepspeed_multinode_launcher: pdsh, zero_stage: 2' >pdsh.yaml
refused 2 '^trireme: pdsh.yaml: deepspeed_config.deepspeed_multinode_launcher: found pdsh; valid: standard, with this line started on each machine, or trireme deepspeed --hostfile FILE' \
    "$trireme" accelerate launch --config_file pdsh.yaml ./worker.sh
sed -i 's/deepspeed_multinode_launcher: pdsh, //' pdsh.yaml
refused 2 '^trireme: pdsh.yaml: deepspeed_config.deepspeed_multinode_launcher: found none, which is pdsh; valid: standard' \
    "$trireme" accelerate launch --config_file pdsh.yaml ./worker.sh

# ---- What a file means for a job
means() { # FILE, lines of the job on stdin
    run "$trireme" translate accelerate "$1"
    expect_exit 0
    grep -v '^#' stdout | sed 's/ *#.*//; /^$/d' >found
    cmp -s found - || fail "$1: $(cat found)"
}
means ddp.yaml <<'END'
train:
  precision: bf16
parallel:
  dp: ddp
launch:
  ranks: 2
checks:
  desync: on
END
expect_line 'rdzv_backend: .* command line alone' stdout
means fsdp1.yaml <<'END'
train:
  precision: fp16
parallel:
  dp: zero2
  offload:
    weights: host
    gradients: host
    optimizer: host
    update: host
launch:
  ranks: 2
END
expect_line 'fsdp_future_key: unknown key, which Accelerate ignores' stdout
expect_line 'fsdp_ignored_modules: found head; ' stdout
means fsdp2.yaml <<'END'
train:
  precision: fp32
parallel:
  dp: zero3
  dp_shard: 2
  cp: 2
  reshard_after_forward: false
  recompute: full
launch:
  ranks: 4
END
means deepspeed.yaml <<'END'
train:
  accumulation: 4
  precision: bf16
  clip_grad_norm: 0.5
parallel:
  dp: zero3
  offload:
    weights: device
    optimizer: host
    update: host
launch:
  ranks: 2
checks:
  nonfinite: skip
END
means megatron.yaml <<'END'
train:
  accumulation: 2
  precision: bf16
parallel:
  dp: zero1
  tp: 2
  sequence_parallel: true
  pp: 2
  recompute: full
launch:
  ranks: 4
END
expect_line 'context_parallel_size: not given; Accelerate 1.15 takes 2' stdout
means old.yaml <<'END'
train:
  precision: fp16
parallel:
  dp: ddp
launch:
  ranks: 1
END
expect_line 'fsdp_config: without effect, because distributed_type is NO' stdout
cat >hybrid.yaml <<'END'
distributed_type: FSDP
num_machines: 2
num_processes: 8
fsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}
debug: true
debug: false
END
means hybrid.yaml <<'END'
train:
  precision: fp32
parallel:
  dp: zero3
  dp_replicate: 2
launch:
  ranks: 8
END
expect_line 'debug: given twice; Accelerate takes the last value' stdout
for type in MULTI_NPU MULTI_XPU; do
    printf 'distributed_type: %s\nnum_processes: 2\n' $type >device.yaml
    run "$trireme" translate accelerate device.yaml
    expect_line "found $type; valid: MULTI_GPU or MULTI_CPU"
done
printf 'distributed_type: NO\nmixed_precision: fp8\n' >fp8.yaml
run "$trireme" translate accelerate fp8.yaml
expect_line 'fp8.yaml:2: mixed_precision: found fp8, which has no equal here; valid: no, fp16, bf16'
run "$trireme" accelerate launch --config_file fp8.yaml ./worker.sh
expect_exit 0

# A file of DeepSpeed below the folder of the other file; Accelerate's values stand for auto.
mkdir -p below
cat >below/ds.json <<'END'
{"bf16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 1}}
END
printf 'distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {deepspeed_config_file: ds.json}\n' >below/file.yaml
run "$trireme" translate accelerate below/file.yaml --accelerate.mixed_precision bf16 \
    --accelerate.deepspeed_config.gradient_accumulation_steps=8
expect_exit 0
expect_line 'dp: zero1  *# ds.json:1: zero_optimization.stage' stdout
expect_line 'precision: bf16  *# ds.json:1: bf16.enabled' stdout
expect_line 'accumulation: 8  *# ds.json:1: gradient_accumulation_steps' stdout
run "$trireme" translate accelerate below/file.yaml --accelerate.mixed_precision fp16
expect_exit 0
expect_line 'precision: fp16' stdout
sed -i 's/"auto"}/true}/' below/ds.json
run "$trireme" translate accelerate below/file.yaml --accelerate.mixed_precision fp16
expect_exit 2

# ---- A job: the file lies over it, flags over the file, and the job's own keys over both.
cat >job.yaml <<'END'
model: {family: gpt2, layers: 2, hidden: 32, heads: 2, vocab: 64, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 2, micro_batch: 1, global_batch: 4, precision: fp16, eval_every: 0, save_every: 0}
lr_schedule: {name: constant}
parallel: {dp: ddp}
END
cat >small.yaml <<'END'
distributed_type: FSDP
num_processes: 2
mixed_precision: bf16
fsdp_config: {fsdp_version: 2, fsdp_activation_checkpointing: true}
END
run "$trireme" accelerate launch --config_file small.yaml job.yaml --quiet --train.out a
expect_exit 0
expect_line '^  precision: bf16' a/job.yaml
expect_line '^  dp: zero3' a/job.yaml
expect_line '^  recompute: full' a/job.yaml
expect_line '"ranks":2' a/log.jsonl
run "$trireme" accelerate launch --config_file small.yaml --num_processes 1 --mixed_precision no \
    job.yaml --quiet --train.out b --parallel.recompute none
expect_exit 0
expect_line '^  precision: fp32' b/job.yaml
expect_line '^  recompute: none' b/job.yaml
expect_line '"ranks":1' b/log.jsonl
run "$trireme" train job.yaml --accelerate small.yaml --quiet --train.out c
expect_exit 0
grep -o '"loss":[^,]*' a/log.jsonl >first
grep -o '"loss":[^,]*' c/log.jsonl | cmp -s - first || fail 'launch and --accelerate differ'
run "$trireme" accelerate launch --config_file small.yaml --mixed_precision fp8 job.yaml --train.out d
expect_exit 2
expect_line 'mixed_precision: found fp8'
expect_no_file d
finish
