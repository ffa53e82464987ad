# recorder.sh -- what a failed run leaves of its last collectives, and what comparing ranks costs: nothing in the
# results. docs/troubleshooting.md tells users of it.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job
train --train.out plain
expect_no_file plain/flight_recorder

# A run whose ranks compare every collective has the bits of one that does not, with every policy and a pipeline.
for how in '--parallel.dp zero3' '--parallel.pp 2' '--launch.as threads'; do
    train --train.out straight $how
    train --train.out compared $how --checks.desync
    losses straight >straight.losses
    losses compared >compared.losses
    expect_lines 8 compared.losses
    expect_same straight.losses compared.losses
    rm -rf straight compared
done

# A rank that is killed, the last calls of both ranks, and where they are written.
fail_a_rank() { # ARGUMENTS...
    rm -rf out
    "$trireme" train job.yaml --quiet --train.steps 1000000000 "$@" >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line '"event":"step","step":5,' out/log.jsonl
    kill -KILL $(children_of $starter | tail -n 1)
    { wait $starter; } 2>/dev/null
    code=$?
    expect_exit 1
    expect_lines 1 stderr
    expect_line '^trireme: rank 1 \(pid [0-9]+\) '"$killed$"
}

fail_a_rank
for rank in 0 1; do
    json=out/flight_recorder/rank_json/$rank.json
    tr -d '\n' <$json >one
    echo >>one
    expect_json_lines one
    expect_line '"entries":' $json
    expect_line '"desc": "[a-z_]+", "ranks": "\[0, 1\]"' $json
    expect_line '"profiling_name": "nccl:all_reduce", "communicator": "local", "frames": \[\{"name": "(REDUCE_GRAD|CLIP_GRAD_NORM)' $json
    # A pickle of protocol 2, which ends with its last opcode.
    [ "$(head -c 3 out/flight_recorder/rank_$rank | od -An -tx1)" = ' 80 02 7d' ] || fail "rank_$rank is no pickle"
    [ "$(tail -c 1 out/flight_recorder/rank_$rank)" = . ] || fail "the pickle rank_$rank is cut off"
done

TORCH_FR_BUFFER_SIZE=3 TORCH_FR_DUMP_TEMP_FILE=elsewhere/trace_ fail_a_rank
expect_no_file out/flight_recorder
expect_file elsewhere/trace_0
[ "$(grep -c '"record_id"' elsewhere/trace_json/0.json)" = 3 ] || fail "not 3 calls: $(cat elsewhere/trace_json/0.json)"

TORCH_NCCL_DUMP_ON_TIMEOUT=0 fail_a_rank
expect_no_file out/flight_recorder

# A file that cannot be written is named in the line of the failure.
touch blocked
rm -rf out
"$trireme" train job.yaml --quiet --train.steps 1000000000 --checks.flight_recorder_prefix blocked/x_ >stdout 2>stderr </dev/null &
starter=$!
wait_for_line '"event":"step","step":5,' out/log.jsonl
kill -KILL $(children_of $starter | tail -n 1)
{ wait $starter; } 2>/dev/null
expect_lines 1 stderr
expect_line '^trireme: rank 1 .* '"$killed; the flight recorder was not written: .*blocked"

# Variables without an effect are named where the environment asks for messages.
run env NCCL_DEBUG=INFO NCCL_ALGO=Ring "$trireme" train job.yaml --train.out told
expect_exit 0
expect_line '^trireme: NCCL_ALGO=Ring has no effect but over nccl with train.deterministic false: sums have one fixed order$'
if "$trireme" help launch.comm | grep -q 'valid.*ucx'; then
    # Over ucx the rule of interfaces acts, and is not said to have no effect.
    run env NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME==lo NCCL_IB_DISABLE=1 NCCL_ALGO=Ring \
        "$trireme" train job.yaml --train.out acts --launch.comm ucx
    expect_exit 0
    expect_line '^trireme: NCCL_ALGO=Ring has no effect but '
    expect_no_line '(IFNAME|IB_DISABLE)=.* has no effect'
    expect_line '^trireme: communicator ucx: 2 ranks; rank 1 by '
fi
refused 2 '^trireme: NCCL_TIMEOUT: found soon; valid: a number of seconds$' env NCCL_TIMEOUT=soon "$trireme" train job.yaml
finish
