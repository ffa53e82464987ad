# tensorflow_words.sh -- TensorFlow's words: `translate tensorflow` of a TF_CONFIG and of strategies, and the line of
# MirroredStrategy.
. "$(dirname "$0")/lib.sh" "$1"

make_data
make_job
translate() {
    echo "$1" >t.yaml
    ok "$trireme" translate tensorflow t.yaml
}
wrong() { # WORDS REGEX
    echo "$1" >t.yaml
    refused 2 "^trireme: t.yaml:[0-9]+: $2" "$trireme" translate tensorflow t.yaml
}

# ---- TF_CONFIG
translate '{"cluster": {"worker": ["a:2222", "b:2222"], "chief": ["c:2222"]}, "task": {"type": "worker", "index": 1}}'
expect_line '^  ranks: 3 +# t.yaml:1: cluster \(a rank for each task\)$' stdout
expect_line '^  dp: MultiWorkerMirroredStrategy ' stdout
expect_line '^# t.yaml:1: task: worker 1 is rank 2 of 3: where the variable TF_CONFIG' stdout
wrong '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}' \
    'cluster.ps: found \["?b:1"?\]; parameter servers are no part of Trireme; valid: tasks chief and worker'
wrong '{"cluster": {"worker": ["a:1"], "evaluator": ["b:1"]}}' 'cluster.evaluator: '
wrong '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}' 'task.type: found ps, which has no equal here'
wrong '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}' 'task.index: found 1; valid: 0 to 0$'
wrong '{"cluster": {"worker": ["a:1"]}, "task": {"type": "Worker", "index": 0}}' 'task.type: found Worker; valid: chief, worker$'
wrong '{"cluster": {"worker": ["a:1", 2]}}' 'cluster.worker: found the address 2; valid: "host:port"$'
wrong '{"cluster": {}}' 'cluster: found no tasks'
wrong '{"cluster": {"chief": ["a:1", "b:1"]}}' 'cluster.chief: found 2 tasks; valid: one$'
wrong '{"cluster": {"workers": ["a:1"]}}' 'cluster.workers: unknown key; did you mean worker\?$'

# ---- Strategies
cat >mirrored.yaml <<'END'
strategy: tf.distribute.MirroredStrategy
devices: ["CPU:0", "CPU:1"]
cross_device_ops: NcclAllReduce
communication_options: {bytes_per_pack: 4096, timeout_seconds: 120.0, implementation: AUTO}
batch_size_per_replica: 2
mixed_precision: mixed_bfloat16
END
ok "$trireme" train job.yaml --tensorflow mirrored.yaml --train.steps 3 --train.out words
expect_line '^trireme: Number of devices: 2$'
ok "$trireme" train job.yaml --quiet --train.steps 3 --train.out keys --parallel.dp ddp --parallel.bucket_bytes 4096 \
    --checks.watchdog 120s --train.micro_batch 2 --train.accumulation 1 --train.precision bf16
expect_lines 0 stderr
for run in words keys; do grep '"event":"step"' $run/log.jsonl | sed 's/,"tokens":.*//' >$run.losses; done
expect_lines 3 words.losses
expect_same words.losses keys.losses
ok "$trireme" train job.yaml --parallel.dp MirroredStrategy --launch.ranks 4 --train.steps 1 --train.out word
expect_line '^trireme: Number of devices: 4$'
translate 'MultiWorkerMirroredStrategy: {communication_options: {implementation: CommunicationImplementation.NCCL, bytes_per_pack: 0}}'
expect_line '^  dp: MultiWorkerMirroredStrategy ' stdout
expect_line '^  comm: nccl ' stdout
expect_no_line 'bucket_bytes' stdout
wrong 'strategy: ParameterServerStrategy' 'strategy: found ParameterServerStrategy, which has no equal here; valid: MirroredStrategy, '
wrong 'strategy: MirorredStrategy' 'strategy: found MirorredStrategy; valid: MirroredStrategy, '
wrong 'devices: []' 'devices: found no device'
translate 'stratagy: MirroredStrategy'
expect_line '^# t.yaml:1: stratagy: unknown key, which TensorFlow ignores; did you mean strategy\?$' stdout
finish
