# unauthenticated.sh -- somebody without the secret attacks every port of a run on two hosts, from its start to its end, and
# the run has the losses of one that is left alone: with a secret of its own, and without one on loopback.
. "${0%/*}/lib.sh" "$1"
attack=$2
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TRIREME_SECRET_FILE
connections=${3:-300} steps=${4:-150}

cat >job.yaml <<'YAML'
model: {family: gpt2, layers: 1, hidden: 32, heads: 4, vocab: 200, max_seq: 32}
data: {train: mock, seq_len: 16}
train: {global_batch: 8, save_every: 0, eval_every: 0}
YAML

two_hosts() { # ADDRESS OUT: in the background, as pids[0] and pids[1]
    local node
    for node in 1 0; do
        "$trireme" run --nnodes 2 --node-rank $node --nproc-per-node 2 --master-addr "$1" --master-port 29781 \
            train job.yaml --quiet --train.steps "$steps" --train.out "$2" >stdout.$node 2>stderr.$node </dev/null &
        pids[node]=$!
    done
}

ended() {
    local node code
    for node in 0 1; do
        wait "${pids[$node]}"
        code=$?
        [ $code = 0 ] || fail "node $node ended with $code: $(head -c 400 stderr.$node)"
        expect_none "node $node prints" "$(cat stdout.$node stderr.$node)"
    done
}

same_under_attack() { # NAME ADDRESS
    two_hosts "$2" "$1-alone"
    ended
    two_hosts "$2" "$1"
    "$attack" "$connections" 20261123 "${pids[0]}" "${pids[1]}" >attacked &
    local attacker=$!
    ended
    wait $attacker || fail 'the attack failed'
    cat attacked
    expect_line '^[2-9][0-9]* ports, [1-9][0-9]{2,} connections, [1-9][0-9]{2,} frames' attacked
    expect_same_losses "$1-alone" "$1"
}

same_under_attack plain 127.0.0.1
umask 077
head -c 32 /dev/urandom | base64 >job.secret
export TRIREME_SECRET_FILE=$scratch/job.secret
same_under_attack secured "$(own_address)"
finish
