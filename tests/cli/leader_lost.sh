# leader_lost.sh -- `trireme run` on two nodes, both of this machine: the node of the leading agent is killed in the middle
# of a round. The other one names it, stops its own worker and ends with an error. elastic.sh loses the other nodes.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
host=$(own_address)
cat >waits.sh <<'END'
#!/bin/sh
trap 'echo told >"told-$NODE"; exit' TERM
echo $$ >"worker-$NODE"
while :; do sleep 0.2; done
END
chmod +x waits.sh

# Starts an agent whose processes are a session of their own, in the background.
declare -A agents
agent() { # NAME NODES
    NODE=$1 setsid timeout 240 "$trireme" run --nnodes "$2" --nproc-per-node 1 --max-restarts 1 --rdzv-backend c10d \
        --rdzv-endpoint "$host:29813" --rdzv-id $$ \
        --rdzv-conf "is_host=$([ "$1" = leader ] && echo true || echo false),last_call_timeout=1" \
        ./waits.sh >"$1.out" 2>"$1.err" </dev/null &
    agents[$1]=$!
}

# Kills an agent and all that it has started, at once.
kill_node() { # NAME
    local f pid session
    for f in /proc/[0-9]*/stat; do
        { read -r pid _ _ _ _ session _ <"$f"; } 2>/dev/null && [ "$session" = "${agents[$1]}" ] && kill -9 "$pid"
    done
    wait "${agents[$1]}" 2>/dev/null
}

# Waits for the worker of an agent, as long as there is the agent.
await_worker() { # NAME
    until grep -Eq '^[0-9]+$' "worker-$1" 2>/dev/null; do
        kill -0 "${agents[$1]}" 2>/dev/null || {
            fail "the agent ended without a worker: $(tail -n 2 "$1.err")"
            return
        }
        sleep 0.02
    done
}

# As many nodes as there are, and the chance to go on with fewer: without the leader nobody can.
for nodes in 2 1:2; do
    rm -f worker-*
    agent leader "$nodes"
    agent other "$nodes"
    await_worker leader
    await_worker other
    kill_node leader
    wait "${agents[other]}"
    code=$?
    [ "$code" = 1 ] || fail "the other node ended with $code: $(cat other.err)"
    expect_line "^trireme: node [01] \(host .*\): the leader's agent is gone: the store at $host:29813: " other.err
    # shellcheck disable=SC2046 # two numbers
    expect_gone 60000 $(cat worker-leader worker-other)
    # The others may start again without this node, so its worker has no time to end by itself.
    expect_no_file told-other
done
# The last line says why no round followed.
[[ $(tail -n 1 other.err) == "trireme: the leader's agent ($host:29813) is gone, while this agent waited for 1 to 2 nodes: "* ]] ||
    fail "the last line: $(cat other.err)"
finish
