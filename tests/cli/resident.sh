# resident.sh -- the files of a model folder are released when its weights are loaded, and `bench train
# --memory-within` compares a rank's memory with the plan.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job
ok "$trireme" train job.yaml --quiet --train.steps 1 --train.save_every 1
cp -r out/checkpoints/step-00000001 folder
sed -i 's/^model: .*/model: {path: folder}/' job.yaml

# expect_no_weights PROCESS...: none of these processes has a file of the folder's weights mapped or open.
expect_no_weights() {
    local pid
    [ "$#" -gt 0 ] || fail 'no process was found'
    for pid in "$@"; do
        expect_line '.' "/proc/$pid/maps"
        expect_no_line '/folder/.*\.safetensors' "/proc/$pid/maps"
        expect_none "open in process $pid" "$(ls -l "/proc/$pid/fd" | grep '/folder/')"
    done
}

for how in processes threads; do
    rm -rf out
    "$trireme" train job.yaml --quiet --launch.as $how --train.steps 1000000000 \
        >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line '"event":"step","step":2,' out/log.jsonl
    expect_no_weights $starter $(children_of $starter)
    kill -INT $starter
    { wait $starter; } 2>/dev/null
    code=$?
    expect_exit 130
done

# The comparison itself. Sizes of processes decide nothing here: no rank has the plan's bytes exactly, and none has
# a million times them.
run "$trireme" bench train job.yaml --train.steps 2 --memory-within 0
expect_exit 1
expect_line '^trireme: rank [01]: has [0-9.]+ [KMG]iB of memory, [+-][0-9.]+ % of the plan.s [0-9.]+ [KMG]iB; valid with --memory-within: at most 0 % more or less$'
ok "$trireme" bench train job.yaml --train.steps 2 --memory-within 1e8
refused 2 '^trireme: --memory-within: found -1; valid: a number of percent from 0$' \
    "$trireme" bench train job.yaml --memory-within -1

finish
