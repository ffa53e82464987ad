# launchers.sh -- under another launcher (torchrun, mpirun, srun, TensorFlow's cluster) every process would start
# all ranks of the job. Such an environment is refused in one line that names the variable, before a folder is
# made. An environment with a single process is accepted.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

under() { # VARIABLE=VALUE...: sets the environment of the next expectation
    environment=("$@")
}
refuses() { # PATTERN
    refused 2 "$1" env "${environment[@]}" "$trireme" train job.yaml --quiet
    refused 2 "$1" env "${environment[@]}" "$trireme" bench all_reduce -b 1K -e 1K -g 2 -n 1 -w 0
}
allows() {
    rm -rf out
    ok env "${environment[@]}" "$trireme" train job.yaml --quiet --train.steps 1
    expect_file out/log.jsonl
}
sed -i 's/^launch: .*/launch: {ranks: 1}/' job.yaml

under RANK=1 WORLD_SIZE=2 LOCAL_RANK=1
refuses '^trireme: RANK=1 WORLD_SIZE=2: torchrun has started several processes.*launch.ranks.*unset WORLD_SIZE'
under RANK=0 WORLD_SIZE=2
refuses 'RANK=0 WORLD_SIZE=2'
under RANK=0 WORLD_SIZE=1
allows
under WORLD_SIZE=4
allows
under OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=0
refuses 'OMPI_COMM_WORLD_SIZE=4: mpirun'
under OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0
allows
under PMI_RANK=3 PMI_SIZE=4
refuses 'PMI_SIZE=4: mpiexec'
under PMI_RANK=0 PMI_SIZE=1
allows
under MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4
refuses 'MV2_COMM_WORLD_SIZE=4'
under PMIX_RANK=1
refuses 'PMIX_RANK=1: a launcher with PMIx'
under SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2
refuses 'SLURM_STEP_NUM_TASKS=2: srun'
under SLURM_PROCID=1 SLURM_NTASKS=2
refuses 'SLURM_PROCID=1: srun'
under SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=7 # a batch script
allows
under SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
allows
under 'TF_CONFIG={"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
refuses 'TF_CONFIG with 2 tasks'
under 'TF_CONFIG={"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}'
refuses 'TF_CONFIG with 2 tasks'
under 'TF_CONFIG={"cluster": {"worker": ["a:1"]}}'
allows
under TF_CONFIG=
allows
under 'TF_CONFIG={'
refuses 'TF_CONFIG: it is not valid JSON'
refused 2 'parallel.dp: found MultiWorkerMirroredStrategy.*valid: MirroredStrategy' \
    "$trireme" train job.yaml --parallel.dp MultiWorkerMirroredStrategy

# Commands that start no ranks run in any environment. unit/launch tests that the library refuses, too.
under RANK=1 WORLD_SIZE=2
ok env "${environment[@]}" "$trireme" explain job.yaml
ok env "${environment[@]}" "$trireme" data inspect toy
ok env "${environment[@]}" "$trireme" train --help
finish
