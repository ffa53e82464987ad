# elastic.sh -- `trireme run --nnodes 1:2 train`: a node is killed, the other resumes from the last checkpoint; a node that
# comes back joins. The order of samples and the bits are those of the same steps by hand. The nodes are of this machine.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export TRIREME_ATTACH_TIMEOUT=60s
export TRIREME=$trireme
host=$(own_address)
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i '/^launch:/d' job.yaml

# Runs without end, until `last` is there: then 20 steps more than the newest checkpoint has. The process of rank 0 decides.
cat >elastic_job.sh <<'END_OF_JOB'
#!/bin/sh
steps=1000000
if [ -e last ]; then
    steps=$(($(ls elastic/checkpoints | sed -n 's/^step-0*\([0-9]*\)$/\1/p' | sort -n | tail -n 1) + 20))
fi
exec "$TRIREME" train job.yaml --quiet --train.steps $steps --train.save_every 20 --train.keep 0 --train.out elastic "$@"
END_OF_JOB
chmod +x elastic_job.sh

# Starts an agent whose processes are a session of their own, in the background. The first one leads.
agent() { # NAME NODES WORKERS PROGRAM...
    setsid timeout 240 "$trireme" run --nnodes "$2" --nproc-per-node "$3" --max-restarts 1 --rdzv-backend c10d \
        --rdzv-endpoint "$host:29811" --rdzv-id $$ --rdzv-conf "is_host=$([ "$1" = leader ] && echo true || echo false),last_call_timeout=${last_call-1}" \
        "${@:4}" >"$1.out" 2>"$1.err" </dev/null &
    agents[$1]=$!
}
declare -A agents

# Kills an agent and all that it has started, at once.
kill_node() { # NAME
    local f pid session
    for f in /proc/[0-9]*/stat; do
        { read -r pid _ _ _ _ session _ <"$f"; } 2>/dev/null && [ "$session" = "${agents[$1]}" ] && kill -9 "$pid"
    done
    wait "${agents[$1]}" 2>/dev/null
}

node_ends() { # NAME CODE
    wait "${agents[$1]}"
    code=$?
    [ "$code" = "$2" ] || fail "node $1 ended with $code, expected $2: $(tail -n 5 "$1.err")"
}

# Has the agent of this `timeout` a connection? The table of the kernel names its socket.
connected() { # PID
    local fd socket
    for fd in /proc/"$(children_of "$1")"/fd/*; do
        socket=$(readlink "$fd") && [[ $socket == socket:* ]] &&
            grep -Eq " 01 .* ${socket//[!0-9]/} " /proc/net/tcp && return
    done
    return 1
}

started() { # RANKS [MORE]: of the start event
    printf '"event":"start".*"ranks":%s,.*%s' "$1" "${2-}"
}

# ---- Four ranks, two after a loss, four again when the node is back
agent leader 1:2 2 ./elastic_job.sh
agent far 1:2 2 ./elastic_job.sh
wait_for_line '"event":"save","step":20,' elastic/log.jsonl
kill_node far
wait_for_line "$(started 2 '"resumed_from":')" elastic/log.jsonl
touch last
agent back 1:2 2 ./elastic_job.sh
node_ends leader 0
node_ends back 0
expect_line 'node [01] \(host .*\): its agent ended, or its host does not answer$' leader.err
expect_line '^trireme: a node has come: starts all workers again \([01] of 1 restarts left\)$' leader.err
expect_line "$(started 4 '"resumed_from":')" elastic/log.jsonl
expect_line '"reason":"interrupted"' elastic/log.jsonl
expect_line '"reason":"done"' elastic/log.jsonl
expect_no_file elastic/log-1.jsonl
# The same rounds by hand, of ranks of one host. A round ends where the next one begins.
sed -n 's/.*"event":"start".*"ranks":\([0-9]*\),.*/\1/p' elastic/log.jsonl >ranks
{
    sed -n 's/.*"resumed_from":\([0-9]*\).*/\1/p' elastic/log.jsonl
    newest_step elastic
} >ends
expect_lines "$(wc -l <ranks)" ends
while read -r ranks end; do
    train --launch.ranks "$ranks" --train.steps "$end" --train.save_every 20 --train.keep 0 --train.out hand
done < <(paste -d ' ' ranks ends)
expect_steps elastic "$(newest_step elastic)"
expect_same_losses hand elastic
expect_same_checkpoint hand elastic
# An undisturbed run has the same samples: its losses differ by rounding only, which grows with the steps to a few
# hundred-thousandths. Those of other samples differ by percents.
steps=$(newest_step elastic) # a node that is back soon ends the run early
[ "$steps" -lt 60 ] || steps=60
train --launch.ranks 4 --train.steps "$steps" --train.out undisturbed
mkdir early
grep -E '"event":"step","step":([1-9]|[1-5][0-9]|60),' elastic/log.jsonl >early/log.jsonl
expect_near_losses undisturbed early 1e-3

# ---- From the beginning, where no checkpoint is complete; and the run that was lost is kept
rm -f last
rm -rf elastic
agent leader 1:2 2 ./elastic_job.sh --train.save_every 0
agent far 1:2 2 ./elastic_job.sh --train.save_every 0
wait_for_line '"step":3,' elastic/log.jsonl
kill_node far
wait_for_line "$(started 4)" elastic/log-1.jsonl
wait_for_line "$(started 2)" elastic/log.jsonl
wait_for_line '"step":2,' elastic/log.jsonl
expect_no_line '"resumed_from":' elastic/log.jsonl
kill "${agents[leader]}"
wait "${agents[leader]}"

# ---- Numbers of ranks that the job cannot have are refused with one line that names the key
rm -rf elastic
agent leader 1:2 2 ./elastic_job.sh --parallel.tp 4 --model.heads 4
agent far 1:2 2 ./elastic_job.sh --parallel.tp 4 --model.heads 4
wait_for_line '"step":3,' elastic/log.jsonl
kill_node far
node_ends leader 1
expect_line 'launch.ranks: found 2, not a multiple of tp 4; nearest valid: 4$' leader.err
rm -rf elastic
agent leader 1:2 2 ./elastic_job.sh
wait_for_line '"step":3,' elastic/log.jsonl
agent far 1:2 1 ./elastic_job.sh
node_ends leader 1
node_ends far 1
expect_line 'train.global_batch: found 4, not a multiple of 3 ranks x micro_batch 1 = 3; nearest valid: 3 and 6; valid launch.ranks for 4: 1, 2, 4;' leader.err

# ---- Agents that wait for nodes: one that is gone is left out, and a leader that is gone is named
printf '%s\n' '#!/bin/sh' 'echo "$RANK of $WORLD_SIZE" >>worlds' >world.sh
chmod +x world.sh
agent leader 3 1 ./world.sh
agent ghost 3 1 ./world.sh
until connected "${agents[ghost]}"; do sleep 0.02; done
kill_node ghost
agent one 3 1 ./world.sh
agent two 3 1 ./world.sh
for node in leader one two; do node_ends $node 0; done
expect_lines 3 worlds
agent leader 3 1 ./world.sh
agent one 3 1 ./world.sh
until connected "${agents[one]}"; do sleep 0.02; done
kill_node leader
node_ends one 1
expect_line "^trireme: the leader's agent \($host:29811\) is gone, while this agent waited for 3 nodes: " one.err

# ---- A run that another one has followed in its folder writes there no more
rm -rf out
"$trireme" train job.yaml --quiet --launch.ranks 2 --train.steps 1000000 --train.save_every 1000000 >stdout 2>stderr </dev/null &
old=$!
wait_for_line '"step":3,' out/log.jsonl
echo 'host other, pid 1, 1' >new
mv new out/.writer
wait $old
[ $? = 1 ] || fail "the old run ended with $?"
expect_line 'out/.writer: another run has begun to write into this folder \(host other, pid 1, 1\)' stderr
expect_no_line '"event":"(error|end|save)"' out/log.jsonl
finish
