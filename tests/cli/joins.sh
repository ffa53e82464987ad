# joins.sh -- `eval`, `predict` and the benchmarks of training on processes that another launcher has started: these are their
# ranks, as for `train`, with the results of ranks that the command starts itself.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export TRIREME_ATTACH_TIMEOUT=60s
make_data
make_job
train --train.steps 2 --train.save_every 2 --train.out made
model=made/checkpoints/latest
sed -i '/^launch:/d' job.yaml

# The environment of rank $1 of 3, as Open MPI sets it. The pid of this script makes identities that no other test has.
openmpi() { printf '%s\n' OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_LOCAL_RANK="$1" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=$$; }

# Both processes of a command: rank 0's output lies in `stdout` and `stderr`, the other's in other.*.
joined() { # EXIT-CODE COMMAND...
    local expected=$1 variables other
    shift
    mapfile -t variables < <(openmpi 1)
    timeout 240 env "${variables[@]}" "$trireme" "$@" >other.out 2>other.err </dev/null &
    other=$!
    mapfile -t variables < <(openmpi 0)
    run env "${variables[@]}" "$trireme" "$@"
    expect_exit "$expected"
    wait $other
    code=$?
    expect_exit "$expected"
}

# Rank 0 alone prints, and what a command that starts two ranks itself prints.
same_as_forked() { # COMMAND...
    joined 0 "$@"
    mv stdout joined.out
    expect_none "rank 1 of '$*' prints" "$(cat other.out other.err)"
    ok "$trireme" "$@" --launch.ranks 2
    expect_same stdout joined.out
}

same_as_forked eval job.yaml --model $model --json
expect_line '^\{"loss":' stdout
same_as_forked predict job.yaml --model $model --what classes
expect_line '"classes"|^\{' stdout
same_as_forked predict job.yaml --model $model --parallel.dp zero3 --what logits --positions last
# A file is rank 0's.
joined 0 predict job.yaml --model $model --what logits --output joined.npy
ok "$trireme" predict job.yaml --model $model --what logits --output forked.npy --launch.ranks 2
expect_same forked.npy joined.npy
[ "$(ls joined.npy*)" = joined.npy ] || fail "files are left: $(ls joined.npy*)"

joined 0 bench train job.yaml --train.steps 3 --json
expect_line '"ranks":2,' stdout
expect_lines 1 stdout
expect_none 'rank 1 of bench train prints' "$(cat other.out other.err)"

# A row of fewer ranks is run by the first processes. The figures are measurements, the rows are not.
joined 0 bench scaling job.yaml --train.steps 2 --rounds 2 --json
[ "$(grep -o '"ranks":[0-9]*' stdout | tr '\n' ' ')" = '"ranks":1 "ranks":2 ' ] || fail "rows: $(cat stdout)"
expect_line '"steps":4,' stdout
expect_none 'rank 1 of bench scaling prints' "$(cat other.out other.err)"
joined 2 bench scaling job.yaml --ranks 2,4
expect_line '^trireme: --ranks: found 4; valid: at most 2, the ranks of the run that mpirun \(Open MPI\) has started$'
joined 2 bench scaling job.yaml --train.global_batch 3
expect_line 'train.global_batch: found 3'
expect_same stderr other.err

# torchrun's processes, and those of `trireme run`
ok "$trireme" run --nproc-per-node 2 eval job.yaml --model $model --json
mv stdout joined.out
ok "$trireme" eval job.yaml --model $model --json --launch.ranks 2
expect_same stdout joined.out

# A failure of one process is that of all, and each says it.
joined 2 eval job.yaml --model nowhere
expect_line '^trireme: rank 0: .*nowhere'
expect_same stderr other.err
joined 2 bench train job.yaml --launch.ranks 3
expect_line 'launch.ranks: found 3; valid: auto, or 2'
expect_same stderr other.err
# Processes of different commands do not compute together.
mapfile -t variables < <(openmpi 1)
timeout 240 env "${variables[@]}" "$trireme" eval job.yaml --model $model --json >other.out 2>other.err </dev/null &
other=$!
mapfile -t variables < <(openmpi 0)
run env "${variables[@]}" "$trireme" eval job.yaml --model $model
wait $other
expect_exit 2
expect_line 'eval: this process and that of rank 0 have different arguments; valid: the same ones for all'
expect_same stderr other.err
finish
