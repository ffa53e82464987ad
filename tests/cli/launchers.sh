# launchers.sh -- environments of other launchers (torchrun, mpirun, srun, TensorFlow's cluster, SageMaker) that `trireme
# train` cannot take part in are refused in one line that names the variable, before a folder is made; so is every
# environment of several processes by commands that start all ranks themselves. One with a single process is accepted.
# attach.sh has those that `trireme train` takes part in.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

under() { # VARIABLE=VALUE...: sets the environment of the next expectation
    environment=("$@")
}
refuses() { # PATTERN: of train
    refused 2 "$1" env "${environment[@]}" "$trireme" train job.yaml --quiet
}
bench_refuses() { # PATTERN
    refused 2 "$1" env "${environment[@]}" "$trireme" bench link -b 1K -e 1K -n 1
}
allows() {
    rm -rf out
    ok env "${environment[@]}" "$trireme" train job.yaml --quiet --train.steps 1
    expect_file out/log.jsonl
}
sed -i 's/^launch: .*/launch: {ranks: 1}/' job.yaml

on_several() { # PROCESSES-HERE
    echo "has started processes on several hosts, $1 of them here; valid: MASTER_ADDR, the host of rank 0, and MASTER_PORT"
}
lacks() { # WHAT
    refuses "has started several processes, but does not tell $1; valid: rank, size, local rank and local size"
}

under RANK=1 WORLD_SIZE=2 LOCAL_RANK=1
lacks LOCAL_WORLD_SIZE
bench_refuses '^trireme: RANK=1 WORLD_SIZE=2: torchrun has started several processes.*starts all ranks itself.*unset WORLD_SIZE'
under RANK=0 WORLD_SIZE=2
lacks LOCAL_RANK
under RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4
refuses "^trireme: RANK=0 WORLD_SIZE=8: torchrun $(on_several 4)"
under RANK=4 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4
refuses 'RANK=4 WORLD_SIZE=4: local rank 0 of 4; valid: ranks below the sizes'
under RANK=0 WORLD_SIZE=1
allows
# Numbers that are none, which once started a whole run in each process
malformed() { # VARIABLE VALUE
    refuses "^trireme: $1: found $2; valid: a whole number, as launchers set it \(or unset $1, if no launcher"
    bench_refuses "^trireme: $1: found $2; valid: a whole number"
}
under RANK=x WORLD_SIZE=2
malformed RANK x
under RANK=0 WORLD_SIZE=2x
malformed WORLD_SIZE 2x
under WORLD_SIZE=2k
malformed WORLD_SIZE 2k
under RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2
malformed RANK -1
under RANK=1 WORLD_SIZE=2 LOCAL_RANK=a LOCAL_WORLD_SIZE=2
malformed LOCAL_RANK a
under RANK=0 WORLD_SIZE=99999999999
malformed WORLD_SIZE 99999999999
under OMPI_COMM_WORLD_RANK=one OMPI_COMM_WORLD_SIZE=4
malformed OMPI_COMM_WORLD_RANK one
under SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=two
malformed SLURM_STEP_NUM_TASKS two
under RANK= WORLD_SIZE=
allows
# One process a pod: no local variable says otherwise, and MASTER_ADDR says where they meet.
under RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=0
refuses '^trireme: RANK=0 WORLD_SIZE=2: MASTER_PORT: found 0; valid: 1 to 65535$'
under RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 LOCAL_WORLD_SIZE=1
lacks LOCAL_RANK
under WORLD_SIZE=4
allows
under OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=0
lacks OMPI_COMM_WORLD_LOCAL_RANK
bench_refuses 'OMPI_COMM_WORLD_SIZE=4: mpirun'
under OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0
allows
under PMI_RANK=3 PMI_SIZE=4
lacks MPI_LOCALRANKID
bench_refuses 'PMI_SIZE=4: mpiexec'
under PMI_RANK=0 PMI_SIZE=1
allows
under MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2
refuses "MV2_COMM_WORLD_SIZE=4: mpiexec .MVAPICH. $(on_several 2)"
bench_refuses 'MV2_COMM_WORLD_SIZE=4'
under PMIX_RANK=1
lacks 'the number of processes'
bench_refuses 'PMIX_RANK=1: a launcher with PMIx'
under SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2
lacks SLURM_LOCALID
bench_refuses 'SLURM_STEP_NUM_TASKS=2: srun'
under SLURM_PROCID=9 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=1 SLURM_NODEID=2 'SLURM_STEP_TASKS_PER_NODE=4(x2),3'
refuses "SLURM_STEP_NUM_TASKS=11: srun $(on_several 3)"
under SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=1 SLURM_NODEID=1 'SLURM_STEP_TASKS_PER_NODE=4(x2),3'
refuses "SLURM_STEP_NUM_TASKS=11: srun $(on_several 4)"
under SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=1 SLURM_NODEID=3 'SLURM_STEP_TASKS_PER_NODE=4(x2),3'
lacks SLURM_STEP_TASKS_PER_NODE
under SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2
lacks SLURM_NODEID
under SLURM_PROCID=1 SLURM_NTASKS=2
lacks 'the number of processes'
under SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=7 # a batch script
allows
under SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
allows
under 'TF_CONFIG={"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
bench_refuses 'TF_CONFIG with 2 tasks'
under 'TF_CONFIG={"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}'
lacks 'the task of this process, a chief or worker of the lists'
under 'TF_CONFIG={"cluster": {"worker": ["a:1"], "ps": ["a:2"]}, "task": {"type": "worker", "index": 0}}'
lacks 'a cluster without the tasks ps'
under 'TF_CONFIG={"cluster": {"worker": ["a:1"]}}'
allows
under TF_CONFIG=
allows
under 'TF_CONFIG={'
refuses 'TF_CONFIG: it is not valid JSON'
bench_refuses 'TF_CONFIG: it is not valid JSON'
# hosts.sh has hosts that meet at the first one, with as many ranks as GPUs.
under 'SM_HOSTS=["algo-1", "algo-2"]' SM_CURRENT_HOST=algo-3
lacks SM_CURRENT_HOST
under 'SM_HOSTS=["algo-1", "algo-2"]' SM_CURRENT_HOST=algo-1 SM_NUM_GPUS=many
malformed SM_NUM_GPUS many
under 'SM_HOSTS=["algo-1"]' SM_CURRENT_HOST=algo-1
allows
# The first launcher of the table counts.
under RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2
refuses 'RANK=0 WORLD_SIZE=8: torchrun'
# TensorFlow's strategy of several workers, also where TF_CONFIG has one of them
under 'TF_CONFIG={"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'
ok env "${environment[@]}" "$trireme" train job.yaml --quiet --train.steps 1 --parallel.dp MultiWorkerMirroredStrategy --train.out strategy

# Commands that start no ranks run in any environment.
under RANK=1 WORLD_SIZE=2
ok env "${environment[@]}" "$trireme" explain job.yaml
ok env "${environment[@]}" "$trireme" data inspect toy
ok env "${environment[@]}" "$trireme" train --help
finish
