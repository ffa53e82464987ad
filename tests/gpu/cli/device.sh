# device.sh -- the program on the cuda device of the stand-in: training, resuming, what plan and explain say, the
# choice of a device, and what is said where there is no GPU.
#   device.sh PROGRAM_WITH_STAND_IN PROGRAM
on_gpus=1
. "${0%/*}/../../cli/lib.sh" "$1"
job='model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 64, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 4, global_batch: 4, micro_batch: 1, save_every: 0, eval_every: 0, out: out}'
printf '%s\n' "$job" >job.yaml

losses() { # FOLDER
    grep -o '"loss": *[0-9.]*' "$1/log.jsonl"
}

# ---- auto takes the GPUs, one rank each; two runs have the same bits, recorded or not
ok "$trireme" train job.yaml --launch.ranks 1
expect_line '^  device: cuda$' out/job.yaml
losses out >first
expect_lines 4 first
mv out recorded
ok "$trireme" train job.yaml --launch.device cuda --launch.ranks 1 --launch.cuda_graphs false
losses out >second
expect_same first second
ok "$trireme" train job.yaml --launch.ranks 1 --train.steps 6
losses out >longer
expect_lines 6 longer
ok "$trireme" explain job.yaml
expect_line 'launch\.device +cuda +default \(auto\)' stdout
expect_line 'launch\.ranks +2 +default \(auto\)' stdout
expect_line '^device cuda 0: Stand-in GPU \(sm_90\), 16\.00 GiB free, utilization 37 %$' stdout
expect_line '^device cuda 1: Stand-in GPU ' stdout
ok "$trireme" explain job.yaml --json
expect_line ',"devices":\[\{"name":"Stand-in GPU","kind":"sm_90","free_bytes":17179869184,"utilization":37\},\{' stdout
expect_line ',"communicator":\{"name":"p2p","least_ranks":2,"most_ranks":16\}' stdout
for lacks in nvmlDeviceGetUtilizationRates NVML; do
    ok env TRIREME_STAND_IN_WITHOUT=$lacks "$trireme" explain job.yaml
    expect_line '^device cuda 0: Stand-in GPU \(sm_90\), 16\.00 GiB free$' stdout
done
ok "$trireme" explain job.yaml
expect_line '^communicator p2p: 2 to 16 ranks$' stdout
run "$trireme" explain job.yaml --launch.ranks 17 --train.global_batch 17
expect_exit 2
expect_line '^trireme: communicator p2p: found 17 ranks; valid are 2 to 16; valid for them is nccl, with a GPU for each rank$'
ok "$trireme" plan job.yaml --launch.device cuda
expect_line '^job: 2 ranks' stdout
ok "$trireme" explain job.yaml --launch.ranks 4
expect_line '^trireme: warning: launch.ranks is 4, more than the 2 devices cuda of this process; ranks share them$'
refused 3 'the job needs .* runtime 768.00 MiB.*memory.budget is 1.00 MiB' "$trireme" train job.yaml --launch.ranks 1 --memory.budget 1Mi

# ---- A step that is replayed launches no kernel itself; the key turns that off
figure() { # NAME: of the JSON object in stdout
    sed -n "s/.*\"$1\":\([0-9]*\)[,}].*/\1/p" stdout
}
for replays in true false; do
    ok "$trireme" bench train job.yaml --launch.ranks 1 --launch.cuda_graphs $replays --json
    launches=$(figure launches)
    case $replays,$launches in
    true,0 | false,[1-9]*) ;;
    *) fail "cuda_graphs $replays: '$launches' launches a step" ;;
    esac
done
# The driver has given out what the device counts, without the context, which the stand-in's driver does not count.
driver=$(figure driver_bytes) device=$(figure device_bytes_per_rank) runtime=$(figure runtime_bytes_per_rank)
[ "$driver" -ge $((device - runtime)) ] && [ "$driver" -le "$device" ] ||
    fail "the driver says $driver bytes, the device $device with $runtime of the context"

# ---- Kernels against their limits
TRIREME_STAND_IN_BYTES=536870912 ok "$trireme" bench kernels --device cuda --tokens 4 --seconds 1e-3 --only norm
expect_line '^device cuda \(sm_90\): copies [0-9.]+ GB/s' stdout
for model in gpt2 llama; do
    expect_line "^$model +norm " stdout
    expect_line "^$model +norm_grad " stdout
done

# ---- CUDA_VISIBLE_DEVICES that leaves some GPUs, or names wrong ones: one line, with which GPU each number means
export TRIREME_STAND_IN_DEVICES=4
sees() { # VISIBLE LINE
    rm -rf out
    ok env CUDA_VISIBLE_DEVICES="$1" "$trireme" train job.yaml --launch.ranks 1
    expect_line "^trireme: device cuda: CUDA_VISIBLE_DEVICES=$1 leaves $2$"
    [ "$(grep -c CUDA_VISIBLE_DEVICES stderr)" = 1 ] || fail "$1: $(cat stderr)"
    ok env CUDA_VISIBLE_DEVICES="$1" "$trireme" explain job.yaml --launch.ranks 1
    expect_line "^device cuda: CUDA_VISIBLE_DEVICES=$1 leaves $2$" stdout
}
valid='valid are 0 to 3, and UUIDs as nvidia-smi -L prints them'
sees 3,0 '2 of 4 GPUs: cuda 0 is GPU 3, cuda 1 is GPU 0'
sees 1,-1,2 '1 of 4 GPUs: cuda 0 is GPU 1'
sees 2,7,1 "1 of 4 GPUs: cuda 0 is GPU 2; '7' names none, so CUDA stops there; $valid"
rm -rf out
ok env CUDA_VISIBLE_DEVICES=3,2,1,0 "$trireme" train job.yaml --launch.ranks 1
expect_no_line CUDA_VISIBLE_DEVICES
refused 2 "CUDA_VISIBLE_DEVICES=GPU-0123 hides all 4 GPUs of this machine; 'GPU-0123' names none, so CUDA stops there; $valid" \
    env CUDA_VISIBLE_DEVICES=GPU-0123 "$trireme" explain job.yaml --launch.device cuda
refused 2 "CUDA_VISIBLE_DEVICES=1,1 hides all 4 GPUs of this machine; '1' names a GPU twice, so CUDA leaves none; $valid" \
    env CUDA_VISIBLE_DEVICES=1,1 "$trireme" explain job.yaml --launch.device cuda
unset TRIREME_STAND_IN_DEVICES

# ---- No GPU: auto takes the CPU, and explain says why; cuda is refused
no_gpu() { # ENVIRONMENT LINE
    rm -rf out
    ok env "$1" "$trireme" train job.yaml --launch.ranks 1
    expect_line '^  device: cpu$' out/job.yaml
    ok env "$1" "$trireme" explain job.yaml --launch.ranks 1
    expect_line "^launch.device +cpu +default \(auto\); device cuda: $2$" stdout
    refused 2 "^trireme: .*launch.device: device cuda: $2$" env "$1" "$trireme" train job.yaml --launch.device cuda
}
no_gpu TRIREME_STAND_IN_DRIVER=none 'this machine has no NVIDIA driver'
no_gpu TRIREME_STAND_IN_DEVICES=0 'this machine has no GPU'
no_gpu CUDA_VISIBLE_DEVICES=-1 'CUDA_VISIBLE_DEVICES=-1 hides all 2 GPUs of this machine'
no_gpu TRIREME_STAND_IN_ARCH=75 'GPU 0 \(Stand-in GPU\) has compute capability 7.5; valid are 8.0 and above'
rm -rf out
ok env TRIREME_STAND_IN_DRIVER=none "$trireme" train job.yaml --launch.device cpu --launch.ranks 1
expect_no_line 'device cuda'

# ---- A GPU without cuBLASLt cannot compute
refused 2 'device cuda 0 .*cuBLASLt is not on this machine|cuBLASLt is not on this machine' \
    env TRIREME_STAND_IN_WITHOUT=cuBLASLt "$trireme" bench train job.yaml --launch.device cuda --launch.ranks 1
finish
