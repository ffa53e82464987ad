# mpi.sh -- the communicator mpi: what it refuses, and, with each MPI that is installed here, runs that have the bits of local.
. "$(dirname "$0")/lib.sh" "$1"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >job.yaml <<'YAML'
model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 200, max_seq: 32}
data: {train: mock, seq_len: 16}
train: {steps: 4, global_batch: 8, micro_batch: 1, save_every: 0, eval_every: 0}
launch: {threads_per_rank: 1}
YAML

refused() { # LINE ARGUMENTS...
    local line=$1
    shift
    run timeout 60 "$trireme" train job.yaml --launch.ranks 2 --launch.comm mpi --train.out refused "$@"
    [ "$code" = 2 ] || fail "exit code $code"
    expect_line "$line" stderr
}
refused 'communicator mpi: MPI has not started these 2 ranks; valid: mpirun -n 2 trireme train JOB --launch.comm mpi'
refused 'communicator mpi: ranks are threads; valid is launch.as: processes' --launch.as threads

# Two processes with the variables of Open MPI's launcher, and a library that is missing or is none of MPI.
as_started() { # LIBRARY
    local rank first
    for rank in 0 1; do
        env OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=2 \
            PMIX_NAMESPACE="mpi-$$" TRIREME_MPI="$1" timeout 60 "$trireme" train job.yaml --launch.comm mpi --train.out refused \
            >"started-$rank" 2>&1 </dev/null &
        [ $rank = 0 ] && first=$!
    done
    wait $! && fail 'rank 1 took the library'
    wait $first && fail 'rank 0 took the library'
    return 0
}
as_started /nowhere.so
expect_line 'TRIREME_MPI=/nowhere.so: .*; valid: the path of an MPI library' started-0
as_started libm.so.6
expect_line 'communicator mpi: the library libm.so.6 has no MPI_Initialized' started-0

same_as_local() { # NAME RANKS ARGUMENTS...
    local name=$1 ranks=$2 mpirun
    shift 2
    ok timeout 120 "$trireme" train job.yaml --quiet --launch.ranks "$ranks" --launch.comm local --train.out "$name-local" "$@"
    grep '"event":"step"' "$name-local/log.jsonl" | sed 's/,"seconds.*//' >"$name-local.steps"
    expect_lines 4 "$name-local.steps"
    for mpirun in "mpirun.openmpi --oversubscribe" mpiexec.mpich; do
        command -v "${mpirun%% *}" >/dev/null || continue
        ok timeout 120 $mpirun -n "$ranks" "$trireme" train job.yaml --quiet --launch.comm mpi --train.out "$name-${mpirun%% *}" "$@"
        grep '"event":"step"' "$name-${mpirun%% *}/log.jsonl" | sed 's/,"seconds.*//' >"$name.steps"
        expect_same "$name-local.steps" "$name.steps"
    done
}
# The benchmark compares every bit of each collective's result, with sums in the order of the tree.
for mpirun in "mpirun.openmpi --oversubscribe" mpiexec.mpich; do
    command -v "${mpirun%% *}" >/dev/null || continue
    for call in all_reduce 'all_reduce -d bfloat16' 'reduce_scatter -d double' 'all_gather -d half' broadcast 'reduce -d int64' alltoall; do
        ok timeout 120 $mpirun -n 5 "$trireme" bench $call --device cpu --comm mpi -b 1K -e 512K -f 512 -n 2
        expect_line '^# Out of bounds values : 0 OK' stdout
        [ "$(grep -cE '^ +[0-9]+ .* 0( +N/A| +[0-9.]+ +[0-9.]+ +[0-9.]+ +0|$)' stdout)" = 2 ] || fail "$call: $(cat stdout)"
    done
done
same_as_local two 2 --parallel.dp ddp
same_as_local four 4 --parallel.dp ddp --train.precision bf16
same_as_local both 4 --parallel.dp zero3 --parallel.pp 2
same_as_local tp 2 --parallel.dp ddp --parallel.tp 2
finish
