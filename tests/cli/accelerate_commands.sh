# accelerate_commands.sh -- `trireme accelerate config`, env, estimate-memory, merge-weights, test and to-fsdp2. The files that
# they write and the tables that they print are those of Accelerate (tests/golden/make_accelerate.py).
golden=$(cd "${0%/*}/../golden/accelerate" && pwd)
. "${0%/*}/lib.sh" "$1"
unset HF_HOME XDG_CACHE_HOME
export HOME=$scratch/home
mkdir home

same() { # FILE GOLDEN
    cmp -s "$1" "$golden/$2" || fail "$1 differs from $2: $(diff "$1" "$golden/$2" | head -n 6)"
}

# ---- config: the same answers give the same bytes.
for answers in "$golden"/config_*.answers; do
    name=${answers##*/}
    name=${name%.answers}
    "$trireme" accelerate config --config_file "$name.yaml" <"$answers" >stdout 2>stderr ||
        fail "$name: $(tail -n 1 stderr)"
    same "$name.yaml" "$name.yaml"
done
expect_line "^accelerate configuration saved at config_zero_machines.yaml$" stdout
# Words serve as well as numbers, and an answer that is none is asked again.
printf '%s\n' this-machine NO maybe yes '' '' bf16 >words
"$trireme" accelerate config --config_file words.yaml <words >stdout 2>stderr || fail "$(cat stderr)"
expect_line '^valid: yes or no$' stdout
expect_line '^  2  bf16$' stdout
expect_line '^  0  no \(default\)$' stdout
expect_line '^mixed_precision: bf16$' words.yaml
# Without a file, it is Accelerate's own; .json is written as JSON.
"$trireme" accelerate config <"$golden/config_cpu.answers" >stdout 2>stderr || fail "$(cat stderr)"
same home/.cache/huggingface/accelerate/default_config.yaml config_cpu.yaml
HF_HOME='~/hub' "$trireme" accelerate config <"$golden/config_cpu.answers" >stdout 2>stderr || fail "$(cat stderr)"
same home/hub/accelerate/default_config.yaml config_cpu.yaml
"$trireme" accelerate config --config_file cpu.json <"$golden/config_cpu.answers" >stdout 2>stderr || fail "$(cat stderr)"
expect_line '^  "distributed_type": "NO",$' cpu.json
# What Trireme has not is refused by name, and nothing is written.
refused() { # PATTERN ANSWER...
    local pattern=$1
    shift
    printf '%s\n' "$@" >answers
    "$trireme" accelerate config --config_file refused.yaml <answers >stdout 2>stderr
    code=$?
    expect_exit 2
    expect_line "$pattern"
    expect_no_file refused.yaml
}
refused 'nothing at Amazon SageMaker' 1
refused 'runs on no TPU' 0 10
refused 'has no fp8' 0 0 yes '' '' 3
refused 'one GPU of one machine is no distributed training' 0 4 '' '' '' '' '' '' 1
refused 'no DeepSpeed on Neuron' 0 9 '' '' '' yes
refused 'no FSDP on Neuron' 0 9 '' '' '' '' yes
refused 'the answers end before the question "Which kind of machine' 0

# ---- config default
run "$trireme" accelerate config default --mixed_precision bf16 --config_file new/default.yaml
expect_exit 0
same new/default.yaml default.yaml
run "$trireme" accelerate config default --mixed_precision fp16 --config_file new/default.yaml
expect_exit 0
expect_line 'already exists at new/default.yaml, will not override' stdout
same new/default.yaml default.yaml
run "$trireme" accelerate config default --mixed_precision fp8 --config_file other.yaml
expect_exit 2
expect_line '--mixed_precision: found fp8; valid: no, fp16, bf16'
run "$trireme" accelerate config defaults
expect_exit 2
expect_line 'found defaults; valid: default, update, or nothing'

# ---- config update
for old in "$golden"/update_*.old; do
    name=${old##*/}
    name=${name%.old}
    cp "$old" "$name.yaml"
    run "$trireme" accelerate config update --config_file "$name.yaml"
    expect_exit 0
    same "$name.yaml" "$name.yaml"
done
# An unquoted NO is false to YAML 1.1; it becomes the word.
printf 'distributed_type: NO\nmixed_precision: no\n' >unquoted.yaml
run "$trireme" accelerate config update --config_file unquoted.yaml
expect_line "^distributed_type: 'NO'$" unquoted.yaml
expect_line "^mixed_precision: 'no'$" unquoted.yaml
bad() { # PATTERN LINES
    printf "$2" >bad.yaml
    cp bad.yaml before.yaml
    run "$trireme" accelerate config update --config_file bad.yaml
    expect_exit 2
    expect_line "$1"
    cmp -s bad.yaml before.yaml || fail "bad.yaml was changed"
}
bad 'bad.yaml: distributed_type: not given' 'num_processes: 2\n'
bad 'found MULTI_GPUS; did you mean MULTI_GPU' 'distributed_type: MULTI_GPUS\n'
bad 'unknown key num_proceses, did you mean num_processes' "distributed_type: 'NO'\nnum_proceses: 2\n"
bad 'because Trireme starts nothing at Amazon SageMaker' 'compute_environment: AMAZON_SAGEMAKER\n'
bad 'found no keys' ''
run "$trireme" accelerate config update --config_file missing.yaml
expect_exit 2
expect_line 'missing.yaml'

# ---- to-fsdp2
for old in "$golden"/fsdp_*.old; do
    name=${old##*/}
    name=${name%.old}
    run "$trireme" accelerate to-fsdp2 --config_file "$old" --output_file "$name.yaml"
    expect_exit 0
    same "$name.yaml" "$name.yaml"
done
cp "$golden/fsdp_full.old" full.yaml
run "$trireme" accelerate to-fsdp2 --config_file full.yaml
expect_exit 2
expect_line 'needs --output_file, or --overwrite'
run "$trireme" accelerate to-fsdp2 --config_file full.yaml --output_file fsdp_full.yaml
expect_exit 2
expect_line 'fsdp_full.yaml exists; --overwrite replaces it'
run "$trireme" accelerate to-fsdp2 --config_file full.yaml --overwrite
expect_exit 0
same full.yaml fsdp_full.yaml
for key in fsdp_backward_prefetch fsdp_forward_prefetch fsdp_sync_module_states fsdp_use_orig_params; do
    expect_line "warning: $key: left out; "
done
run "$trireme" accelerate to-fsdp2 --config_file "$golden/fsdp_no_shard.old" --output_file no_shard.yaml
expect_line 'warning: fsdp_sharding_strategy: NO_SHARD becomes'

# ---- env
run "$trireme" accelerate env
expect_exit 0
expect_line '^- `Trireme` version: [0-9.]+$' stdout
expect_line '^- Platform: Linux-.*-with-glibc[0-9.]+$' stdout
expect_line '^- System RAM: [0-9.]+ GB$' stdout
expect_line '^- `Accelerate` default config:$' stdout
expect_line '^	- use_cpu: True$' stdout
rm home/.cache/huggingface/accelerate/default_config.yaml
run "$trireme" accelerate env
expect_line '^	Not found$' stdout
run "$trireme" accelerate env --config_file "$golden/config_zero1.yaml"
expect_line '^- `Accelerate` config passed:$' stdout
expect_line "^	- deepspeed_config: \\{'gradient_accumulation_steps': 1, 'zero3_init_flag': False, 'zero_stage': 1\\}$" stdout

# ---- estimate-memory
cp -r "$golden/models" models
cd models || exit 1
for name in *; do
    run "$trireme" accelerate estimate-memory "$name"
    expect_exit 0
    head -n -1 stdout >table
    same table "models/$name/table.txt"
    expect_line "^Activations are not counted; \`trireme plan --model.path $name --data.train mock\`" stdout
done
run "$trireme" accelerate estimate-memory tiny --dtypes int8 float32
expect_line '^│  int8 │' stdout
expect_no_line '^│float16' stdout
run "$trireme" accelerate estimate-memory tiny --dtypes bf16
expect_exit 2
expect_line 'found bf16; valid: float32, float16, int8, int4'
run "$trireme" accelerate estimate-memory owner/model
expect_exit 2
expect_line '`hf download owner/model --local-dir DIR`'
cd ..

# ---- merge-weights: tensors of two shards, the larger elements first; and a checkpoint.
shard() { # FILE HEADER DATA
    printf "\\x$(printf %02x ${#2})\\0\\0\\0\\0\\0\\0\\0%s%s" "$2" "$3" >"$1"
}
mkdir shards
shard shards/1.safetensors '{"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' xyz
shard shards/2.safetensors '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' 01234567
echo '{"weight_map": {"b": "1.safetensors", "a": "2.safetensors"}}' >shards/model.safetensors.index.json
run "$trireme" accelerate merge-weights shards merged/shards
expect_exit 0
expect_line '^merged/shards/model.safetensors: 2 tensors of shards$' stdout
[ "$(tail -c 11 merged/shards/model.safetensors)" = 01234567xyz ] || fail 'merged shards have other bytes'
[ "$(ls -A merged/shards)" = model.safetensors ] || fail "left behind: $(ls -A merged/shards)"
cp merged/shards/model.safetensors before
run "$trireme" accelerate merge-weights shards merged/shards
expect_exit 2
expect_line 'merged/shards/model.safetensors exists; valid: another folder'
cmp -s before merged/shards/model.safetensors || fail 'merged/shards was changed'
rm shards/1.safetensors
run "$trireme" accelerate merge-weights shards merged/broken
expect_exit 2
expect_line 'shards/1.safetensors'
expect_no_file merged/broken
cat >job.yaml <<'END'
model: {family: gpt2, layers: 2, hidden: 32, heads: 2, vocab: 256, max_seq: 32}
data: {train: mock, seq_len: 32}
train: {steps: 2, global_batch: 2, eval_every: 0}
END
run "$trireme" train job.yaml --quiet --train.out one
expect_exit 0
for from in one one/checkpoints/step-00000002; do
    run "$trireme" accelerate merge-weights "$from" "merged/$from"
    expect_exit 0
    cmp -s "merged/$from/model.safetensors" one/checkpoints/latest/model.safetensors || fail "$from: other weights"
done
mkdir -p fsdp/pytorch_model_fsdp_0
: >fsdp/pytorch_model_fsdp_0/.metadata
for from in fsdp fsdp/pytorch_model_fsdp_0; do
    run "$trireme" accelerate merge-weights "$from" merged/fsdp
    expect_exit 2
    expect_line 'format_utils dcp_to_torch fsdp/pytorch_model_fsdp_0 model.pt'
done
expect_no_file merged/fsdp
run "$trireme" accelerate merge-weights one merged/pickle --unsafe_serialization
expect_exit 2
expect_line 'writes no pickles'
run "$trireme" accelerate merge-weights missing merged/missing
expect_exit 2
expect_line 'found missing, which is not a folder'

# ---- test: a tiny job on the ranks of the file.
mkdir tmp
export TMPDIR=$scratch/tmp
succeeds() { # FILE
    run "$trireme" accelerate test --config_file "$1"
    expect_exit 0
    expect_line '^Test is a success! You are ready for your distributed training!$' stdout
}
printf 'distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nnum_processes: 2\nmixed_precision: bf16\nuse_cpu: true\n' >ranks.yaml
succeeds ranks.yaml
printf 'distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2, gradient_accumulation_steps: 3}\nnum_processes: 2\n' >ranks.yaml
succeeds ranks.yaml
succeeds "$golden/config_megatron.yaml"
printf "distributed_type: MULTI_CPU\nnum_machines: 2\nmachine_rank: 0\nmain_process_ip: n0\nmain_process_port: 29500\nnum_processes: 2\nuse_cpu: true\n" >ranks.yaml
succeeds ranks.yaml
expect_line 'ranks.yaml: num_machines: found 2; the test starts all ranks on this machine'
run "$trireme" accelerate test
expect_exit 0
printf 'distributed_type: FSDP\nnum_processes: 2\nmixed_precision: fp8\n' >ranks.yaml
for file in ranks.yaml missing.yaml; do
    run "$trireme" accelerate test --config_file $file
    expect_exit 1
    expect_line "accelerate test: the run failed as $file asks for it"
    expect_no_line success stdout
done
[ -z "$(ls -A tmp)" ] || fail "left behind: $(ls -A tmp)"
finish
