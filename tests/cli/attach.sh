# attach.sh -- processes that another launcher has started become the ranks of one run: same bits as ranks that
# `trireme train` starts, for the environment of each launcher; a rank that is killed or missing is named by all others.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export TRIREME_ATTACH_TIMEOUT=60s
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i '/^launch:/d' job.yaml
pids=()

# The environment of rank $1 of $2. The pid of this script makes identities that no other test has.
torchrun() { printf '%s\n' RANK="$1" LOCAL_RANK="$1" WORLD_SIZE="$2" LOCAL_WORLD_SIZE="$2" MASTER_ADDR=127.0.0.1 MASTER_PORT=$$ TORCHELASTIC_RUN_ID=none; }
openmpi() { printf '%s\n' OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_LOCAL_RANK="$1" OMPI_COMM_WORLD_SIZE="$2" OMPI_COMM_WORLD_LOCAL_SIZE="$2" PMIX_RANK="$1" PMIX_NAMESPACE=$$; }
mpich() { printf '%s\n' PMI_RANK="$1" PMI_SIZE="$2" MPI_LOCALRANKID="$1" MPI_LOCALNRANKS="$2"; } # the parent process is the identity
mvapich() { printf '%s\n' MV2_COMM_WORLD_RANK="$1" MV2_COMM_WORLD_SIZE="$2" MV2_COMM_WORLD_LOCAL_RANK="$1" MV2_COMM_WORLD_LOCAL_SIZE="$2"; }
slurm() { printf '%s\n' SLURM_PROCID="$1" SLURM_LOCALID="$1" SLURM_NODEID=0 SLURM_NTASKS="$2" SLURM_STEP_NUM_TASKS="$2" SLURM_STEP_TASKS_PER_NODE="$2" SLURM_JOB_ID=$$ SLURM_STEP_ID=0; }
slurm_pmi2() { printf '%s\n' PMI_RANK="$1" PMI_SIZE="$2" PMI_JOBID=$$.0 && slurm "$1" "$2"; }
tensorflow() {
    local type=worker index=$(($1 - 1))
    [ "$1" != 0 ] || { type=chief && index=0; }
    printf '%s\n' "TF_CONFIG={\"cluster\": {\"chief\": [\"h:$$\"], \"worker\": [\"h:1\", \"h:2\", \"h:3\"]}, \"task\": {\"type\": \"$type\", \"index\": $index}}"
}

start() { # LAUNCHER RANK SIZE ARGUMENTS...: in the background
    local variables
    mapfile -t variables < <("$1" "$2" "$3")
    env "${variables[@]}" "$trireme" train job.yaml --quiet "${@:4}" >"stdout.$2" 2>"stderr.$2" </dev/null &
    pids[$2]=$!
}

start_4() { # LAUNCHER ARGUMENTS...
    local r
    for r in 3 1 0 2; do start "$1" "$r" 4 "${@:2}"; done
}

ended() { # RANK CODE
    wait "${pids[$1]}" 2>/dev/null
    code=$?
    [ "$code" = "$2" ] || fail "rank $1 ended with $code, expected $2: $(head -c 400 "stderr.$1")"
}

# Each of the ranks printed one line, the same, which matches.
all_say() { # REGEX CODE RANK...
    local r
    for r in "${@:3}"; do
        ended "$r" "$2"
        expect_lines 1 "stderr.$r"
        expect_line "$1" "stderr.$r"
        expect_same "stderr.$3" "stderr.$r"
    done
}

expect_like_forked() { # NAME
    expect_steps "$1" 8
    expect_same_losses forked "$1"
    expect_same_checkpoint forked "$1"
}

# ---- Same bits
train --launch.ranks 4 --train.save_every 4 --train.out forked
for launcher in torchrun openmpi mpich mvapich slurm slurm_pmi2 tensorflow; do
    start_4 $launcher --train.save_every 4 --train.out $launcher
    for r in 0 1 2 3; do
        ended $r 0
        expect_none "rank $r under $launcher prints" "$(cat stdout.$r stderr.$r)"
    done
    expect_like_forked $launcher
done
# A cluster of TensorFlow trains by the name that its scripts have for it.
rm -rf tensorflow
start_4 tensorflow --parallel.dp MultiWorkerMirroredStrategy --train.save_every 4 --train.out tensorflow
for r in 0 1 2 3; do ended $r 0; done
expect_like_forked tensorflow
for arguments in '--parallel.dp zero3 --checks.desync on' '--parallel.tp 2 --parallel.pp 2'; do
    rm -rf forked torchrun agent
    # The words of one flag each.
    train --launch.ranks 4 --train.save_every 4 --train.out forked $arguments
    start_4 torchrun --train.save_every 4 --train.out torchrun --launch.ranks 4 $arguments
    for r in 0 1 2 3; do ended $r 0; done
    expect_like_forked torchrun
    ok "$trireme" run --nproc-per-node 4 train job.yaml --quiet --train.save_every 4 --train.out agent $arguments
    expect_like_forked agent
done
# A path of the program is a command, too. Rank 0 alone prints.
rm -rf agent
ok "$trireme" run --nproc-per-node 4 "$trireme" train job.yaml --train.save_every 4 --train.out agent --parallel.tp 2 --parallel.pp 2
expect_like_forked agent
[ "$(grep -c '^saved ' stderr)" = 2 ] || fail "not one rank says what is saved: $(cat stderr)"
# A run resumes, and one that has all steps ends at once.
sed -i 's/steps: 8/steps: 12/' job.yaml
train --launch.ranks 4 --train.save_every 4 --train.out forked --parallel.tp 2 --parallel.pp 2
for _ in resumes is-done; do
    start_4 torchrun --train.save_every 4 --train.out torchrun --parallel.tp 2 --parallel.pp 2
    for r in 0 1 2 3; do ended $r 0; done
    expect_steps torchrun 12
    expect_same_losses forked torchrun
    expect_same_checkpoint forked torchrun
done
expect_line 'already at step 12 of 12' stderr.0
for r in 1 2 3; do expect_lines 0 stderr.$r; done
sed -i 's/steps: 12/steps: 8/' job.yaml

# ---- Refused before anything is written
start_4 torchrun --launch.ranks 2
all_say 'launch.ranks: found 2; valid: auto, or 4, the ranks of the run that torchrun has started$' 2 0 1 2 3
start_4 slurm --launch.as threads
all_say 'launch.as: found threads; valid: processes, because srun has started several processes$' 2 0 1 2 3
start_4 torchrun --train.stepz 3
all_say 'train.stepz: unknown option' 2 0 1 2 3
start torchrun 0 2
start torchrun 1 3
all_say 'a process was started as rank 1 of 3, and rank 0 as one of 2' 2 0 1
start torchrun 2 4 # it waits for rank 0, which waits for a shorter time
export TRIREME_ATTACH_TIMEOUT=20s
start torchrun 0 4
all_say 'local ranks 1, 3 of 4 did not come within 20 s \(torchrun MASTER_PORT' 1 0 2
export TRIREME_ATTACH_TIMEOUT=1s
start torchrun 1 4
start torchrun 2 4
all_say 'local rank 0 of 4 did not come within 1 s' 1 1 2
export TRIREME_ATTACH_TIMEOUT=soon
start torchrun 1 2
all_say 'TRIREME_ATTACH_TIMEOUT: found soon; valid: a duration' 2 1
export TRIREME_ATTACH_TIMEOUT=60s
start torchrun 0 3
start torchrun 1 3
first=${pids[1]}
start torchrun 1 3
wait "$first"
all_say 'two processes are rank 1 of this job' 2 0 1
expect_no_file out

# ---- A rank that is lost is named by all others, and nothing is left
for lost in 0 3; do
    rm -rf out
    start_4 torchrun --train.steps 1000000
    wait_for_line '"step":3' out/log.jsonl
    others=()
    for r in 0 1 2 3; do [ $r = $lost ] || others+=($r); done
    left=$(for r in 0 1 2 3; do children_of "${pids[$r]}"; done)
    [ "$(wc -w <<<"$left")" = 4 ] || fail "not each process has forked its rank: $left"
    kill -9 "${pids[$lost]}"
    all_say "^trireme: rank $lost \(pid ${pids[$lost]}\) was killed or ended before its work was done; it was in [A-Zn]" 1 "${others[@]}"
    wait "${pids[$lost]}" 2>/dev/null
    expect_gone 20000 $left
done
expect_line '"rank":3,.*rank 3 .pid' out/log.jsonl
# The process that a starting process forked for the rank
rm -rf out
start_4 torchrun --train.steps 1000000
wait_for_line '"step":3' out/log.jsonl
kill -9 "$(children_of "${pids[2]}")"
all_say '^trireme: rank 2 \(pid [0-9]+\) '"$killed$" 1 0 1 2 3
# Each process leaves the last calls of its rank, also of the one that was killed.
for r in 0 1 2 3; do
    expect_line "\"rank\": $r,\$" out/flight_recorder/rank_json/$r.json
    expect_line '"profiling_name": "nccl:all_reduce", "communicator": "local"' out/flight_recorder/rank_json/$r.json
done
# A signal to one rank stops all after their step, and rank 0 says it.
rm -rf out
start_4 torchrun --train.steps 1000000
wait_for_line '"step":3' out/log.jsonl
kill "${pids[2]}"
for r in 0 1 2 3; do ended $r 130; done
expect_line '^trireme: stopped by a signal to another rank$' stderr.0
for r in 1 2 3; do expect_lines 0 stderr.$r; done
expect_line '"reason":"interrupted"' out/log.jsonl

# ---- The launcher itself is killed: it names what has ended, and nothing is left. It is told by the name of its program.
cat >mpirun <<'END'
#!/bin/bash
for r in 0 1; do
    OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_LOCAL_RANK=$r OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
        PMIX_NAMESPACE=$2 "$1" train job.yaml --quiet --train.steps 1000000 "${@:3}" 2>"stderr.$r" &
done
wait
END
chmod +x mpirun
cp mpirun wrapper

start_under() { # PROGRAM
    rm -rf out
    "./$1" "$trireme" "$$.$1" --train.save_every 1000000 >stdout 2>stderr.launcher </dev/null &
    launcher=$!
    wait_for_line '"step":3' out/log.jsonl
    started=$(children_of $launcher)
    left=$(for pid in $started; do echo "$pid" && children_of "$pid"; done)
    [ "$(wc -w <<<"$left")" = 4 ] || fail "not two processes and their ranks: $left"
}

start_under mpirun
kill -9 $launcher
wait $launcher 2>/dev/null
expect_gone 20000 $left
for r in 0 1; do
    expect_lines 1 "stderr.$r"
    expect_line "^trireme: mpirun \(pid $launcher\), which started the ranks, has ended$" "stderr.$r"
done
expect_line '"event":"error".*mpirun .pid' out/log.jsonl
# One that ends while its processes stop, as it was asked to, does not fail the run.
start_under mpirun
kill $started
kill -9 $launcher
wait $launcher 2>/dev/null
expect_gone 20000 $left
expect_line '"reason":"interrupted"' out/log.jsonl
# A parent that is no launcher may end: nohup, setsid and shells do.
start_under wrapper
kill -9 $launcher
wait $launcher 2>/dev/null
now=$(grep -c '"event":"step"' out/log.jsonl)
wait_for_line "\"step\":$((now + 20))," out/log.jsonl
kill $started
expect_gone 20000 $left
expect_line '"reason":"interrupted"' out/log.jsonl
finish
