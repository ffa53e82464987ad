# plan_times.sh -- predicted times of a tiny job on a made-up machine (machine_made_up.json), which are easy to find by hand:
# a million FLOP/s, memory that takes no time, 10 ms and 1 us a byte for each all-reduce, 1 ms for each message or its
# receive, and 1 ms for each step.
machine=$(realpath "${0%/*}/machine_made_up.json")
. "$(dirname "$0")/lib.sh" "$1"
make_points
cat >job.yaml <<END
model: {family: mlp, features: 4, hidden: 8, layers: 2, classes: 3}
data: {train: points.safetensors}
train: {steps: 10, micro_batch: 2, global_batch: 8, out: out}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 2, threads_per_rank: 1, comm: local}
END
predicted() { # MS ARGUMENTS...: of a step
    ok "$trireme" explain job.yaml --time --machine "${made-$machine}" --json "${@:2}"
    expect_lines 0 stderr
    expect_line "\"step_ms_predicted\":$1," stdout
}
milliseconds() { # NAME MS: the first instruction of that name
    local got
    got=$(awk -v name="$1" '/"times":/ {
        split($0, part, /"schedule":\[|\],"times":\[/)
        instructions = split(part[2], one, /","/)
        split(part[3], time, /\},?/)
        for (i = instructions; i > 0; i--)
            if (index(one[i], name)) { ms = time[i]; sub(/.*"ms":/, "", ms); sub(/,.*/, "", ms) }
        printf "%.6g", ms
    }' stdout)
    [ "$got" = "$2" ] || fail "$1 takes $got ms, expected $2"
}

# A micro-batch has 2 samples. A product of 2 x 4 and 4 x 8 has 2 x 2 x 4 x 8 = 128 FLOPs, and its backward pass has one
# product, because nobody needs the gradient of the inputs. The head has three of 2 x 2 x 8 x 3 = 96 FLOPs, all in its
# forward pass. There are 67 parameters in 96 elements: each of the rows is padded to 16.
# 2 x (0.128 + 0.288 + 0.128) + (10 + 0.384) + (10 + 0.040) + 1
predicted 22.512
milliseconds 'FORWARD micro 0 block 0' 0.128
milliseconds 'FORWARD micro 0 block 1' 0.288
milliseconds 'BACKWARD micro 0 block 1' 0
milliseconds 'BACKWARD micro 1 block 0' 0.128
milliseconds 'REDUCE_GRAD' 10.384
milliseconds 'CLIP_GRAD_NORM' 10.04

# Half of the micro-batches; and kernels that take longer in a step than alone.
predicted 21.968 --train.global_batch 4
sed 's/"factor": 1,/"factor": 3,/' "$machine" >factor.json
made=factor.json predicted 23.056 --train.global_batch 4

# Memory of a million bytes a second, and products that take no time: AdamW reads 16 bytes of each element and writes 12.
sed 's/"fp32": 1e6/"fp32": 1e18/; s/"memory_bytes_per_s": 1e18/"memory_bytes_per_s": 1e6/' "$machine" >memory.json
ok "$trireme" explain job.yaml --time --machine memory.json --json
milliseconds 'OPTIMIZER_STEP' 2.688

# Two stages: the forward of stage 0, a message and its receive, the head; then the other micro-batch's receive and head; a
# message and its receive, and the last backward. The norm and the step are the same.
# 0.128 + 1 + 1 + 0.288 + 1 + 1 + 0.288 + 1 + 1 + 0.128 + 10.04 + 1
predicted 17.872 --parallel.pp 2 --train.global_batch 4
milliseconds 'SEND_ACT' 1
predicted 17.872 --parallel.pp 2 --train.global_batch 4 --rank 1
milliseconds 'RECV_ACT' 1

# ---- Machine files that do not do
refused 2 'machine_made_up.json: calls.rows: found none of communicator tls; `trireme bench calibrate --comm tls`' \
    "$trireme" explain job.yaml --time --machine "$machine" --launch.comm tls
sed 's/"cores": 2/"cores": 0/' "$machine" >cores.json
refused 2 'cores.json: cores: valid is a whole number from 1 on' "$trireme" explain job.yaml --time --machine cores.json
finish
