// causes_memory.c -- causes of failed runs: memory of GPUs and hosts, and limits of processes. See cause.h.
#include "diagnose/tables.h"

static const diagnose_cause ROWS[] = {
    {
        .code = "shm-full",
        .weight = DIAGNOSE_MACHINE,
        .pattern = {{"posix_fallocate failed", NULL},
                    {"rror while creating shared memory segment", NULL},
                    {"insufficient shared memory", NULL},
                    {"out of shared memory",
                     "workers are out of shared memory|is killed by signal: Bus error"},
                    {"killed by signal: Bus error", NULL},
                    {"/dev/shm",
                     "No space left on device.*/dev/shm|/dev/shm.*(?:No space left|full)"},
                    {"unable to mmap",
                     "(?i)unable to mmap .*(?:shm|torch_).*|.*unable to mmap.*Cannot allocate"}},
        .sentence = "/dev/shm is full, or too small for the ranks and their loader workers",
        .why = "NCCL and loader workers pass data through files of /dev/shm. Docker gives a "
               "container 64 MB of it.",
        .remedy = {"Start the container with --shm-size=16g, or with --ipc=host; in Kubernetes "
                   "mount an emptyDir with medium: Memory at /dev/shm",
                   "$ df -h /dev/shm", "Remove files that ended programs left there"},
        .check = {"shm-size", "shm-missing"},
        .reference = "docs/troubleshooting.md#shared-memory-in-a-container",
    },
    {
        .code = "host-memory",
        .weight = DIAGNOSE_MACHINE,
        .pattern =
            {{"oom", "Detected \\d+ oom[-_]kill event|oom-kill:constraint|invoked oom-killer|"
                     "oom_kill_process|oom_reaper: reaped"},
             {"Out of memory: Kill", NULL},
             {"emory cgroup out of memory", NULL},
             {"OOMKilled", "OOMKilled(?!\"?[:=] ?\"?false)"},
             {": Out Of Memory",
              "error: (?<host>[\\w.-]+): tasks? (?:(?<rank>\\d+)(?!-|,|\\d))?.*: Out Of Memory"},
             {"xceeded job memory limit", NULL},
             {"the kernel killed it: ", NULL},
             {"ode was low on resource: memory", NULL}},
        .sentence = "the kernel killed a process because the memory of the host, or of the job's "
                    "control group, was used up",
        .why = "Each rank, and each of its loader workers, holds its own copy of what the program "
               "loads. Optimizer state in host memory (offload) counts as well.",
        .remedy = {"Ask for more memory (srun --mem, resources.limits.memory of a pod), or start "
                   "fewer ranks or loader workers on each host",
                   "Load weights on one rank, or from safetensors, which are mapped and not copied",
                   "$ dmesg -T | grep -i oom"},
        .check = {"memory-available", "cgroup-memory", "kernel-oom", "cgroup-oom"},
        .reference = "docs/troubleshooting.md#a-rank-dies",
    },
    {
        .code = "gpu-memory",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern =
            {{"CUDA out of memory",
              "CUDA out of memory(?:\\. Tried to allocate (?<size>[\\d.]+ ?[KMGT]?i?B))?"
              "(?:.*?(?:total capaci?ty of|GPU \\d+;) (?<total>[\\d.]+ [KMGT]?i?B))?"
              "(?:.*?(?:of which|allocated;) (?<free>[\\d.]+ (?:bytes|[KMGT]?i?B))(?: is)? free)?"},
             {"out of memory", "(?i)(?:cuda|cudaMalloc|cublas|hip|nccl).{0,60}out of memory|"
                               "out of memory.{0,40}(?:cuda|gpu)"},
             {"OUT_OF_MEMORY", "CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory"},
             {"OOM when allocating tensor", NULL},
             {"OutOfMemoryError", "torch\\.(?:cuda\\.)?OutOfMemoryError"},
             {"HIP out of memory", NULL}},
        .sentence = "a GPU has no memory left[: {size} were asked for][, {free} of {total} were "
                    "free]",
        .why = "Weights, gradients, optimizer state and activations of one rank did not fit. Other "
               "ranks then wait for it until their calls time out.",
        .remedy = {"Lower the micro-batch and accumulate more, or recompute activations",
                   "Shard more: zero3 (FSDP) or more GPUs; then move optimizer state to the host",
                   "$ trireme plan MODEL --gpus N # says before a run what fits",
                   "Look with nvidia-smi for other programs on the GPU; set "
                   "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragments"},
        .check = {"gpu-processes", "gpu-memory-taken"},
        .reference = "docs/troubleshooting.md#it-does-not-fit-in-memory",
    },
    {
        .code = "host-alloc",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"annot allocate memory",
                     "^(?!.*ibv_).*(?:Errno "
                     "12\\]|mmap|fork|malloc|DefaultCPUAllocator|std::|cudaHostAlloc|"
                     "os error 12|: ).*[Cc]annot allocate memory"},
                    {"DefaultCPUAllocator", "not enough memory|can't allocate memory"},
                    {"std::bad_alloc", NULL},
                    {"MemoryError", "^(?:.*[\\]:] )?MemoryError\\b"},
                    {"ArrayMemoryError", NULL},
                    {"nable to allocate", "Unable to allocate (?<size>[\\d.]+ [KMGT]i?B)"}},
        .sentence = "the host has no memory for a process[: {size} were asked for]",
        .why = "The limit may be that of the machine, of a control group, or of address space "
               "(ulimit -v).",
        .remedy = {"Ask for more memory, or start fewer ranks and loader workers",
                   "$ ulimit -v; cat /proc/sys/vm/overcommit_memory"},
        .check = {"memory-available", "cgroup-memory", "overcommit-memory"},
    },
    {
        .code = "too-many-files",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"oo many open files", NULL},
                    {"received 0 items of ancdata", NULL},
                    {"EMFILE", NULL}},
        .sentence = "a process has reached its limit of open files",
        .why = "Sockets, shards and the tensors that loader workers hand over are all open files.",
        .remedy = {"$ ulimit -n 65536",
                   "In PyTorch: torch.multiprocessing.set_sharing_strategy('file_system')"},
        .check = {"nofile-limit", "open-files-system"},
    },
    {
        .code = "too-many-processes",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"esource temporarily unavailable",
                     "(?:fork|pthread_create|clone|Errno 11\\]|spawn|thread).*esource temporarily "
                     "unavailable"},
                    {"RLIMIT_NPROC", NULL},
                    {"can't start new thread", NULL},
                    {"annot fork", NULL}},
        .sentence = "no further process or thread may be started: the limit of the user or of the "
                    "control group is reached",
        .why = "Each rank starts threads for as many cores as it sees, and loader workers do so "
               "again.",
        .remedy = {"$ ulimit -u unlimited",
                   "Set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS to the cores of one rank",
                   "In a container raise --pids-limit"},
        .check = {"nproc-limit", "pids-limit", "process-ids"},
    },
    {
        .code = "memlock",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"ibv_", "(?:ibv_(?:create_[cq][qp]|reg_mr\\w*|alloc_pd|reg_dmabuf_mr)\\b.*"
                             "(?:annot allocate memory|failed$|failed[. ]*$))"},
                    {"max locked memory", NULL},
                    {"RLIMIT_MEMLOCK", NULL},
                    {"emory registration fail", NULL}},
        .sentence = "InfiniBand could not register memory: the limit of locked memory is too low",
        .why = "A network card reads and writes memory that must not be paged out.",
        .remedy = {"$ ulimit -l unlimited # in the shell that starts the ranks",
                   "Set memlock to unlimited in /etc/security/limits.conf, LimitMEMLOCK=infinity "
                   "for slurmd and docker, --ulimit memlock=-1 for a container"},
        .check = {"memlock-limit"},
        .reference = "docs/troubleshooting.md",
    },
    {
        .code = "loader-killed",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"DataLoader worker", "DataLoader worker \\(pid\\(?s?\\)? ?(?<pid>[\\d, ]+)\\) "
                                          "(?:exited unexpectedly|is killed by signal: (?!Bus))"}},
        .sentence = "a loader worker[ (pid {pid})] was killed or crashed",
        .why = "The kernel kills workers first when the memory of the host is short; a crash of a "
               "decoder is the other cause.",
        .remedy = {"Start fewer workers, with smaller batches of prefetch",
                   "$ dmesg -T | grep -i -e oom -e segfault",
                   "Run with num_workers=0 to see an error of the worker itself"},
        .check = {"memory-available", "cgroup-memory", "shm-size"},
    },
    {
        .code = "pod-evicted",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"Evicted", "Reason:\\s*Evicted|\\bEvicted\\b.*(?:node|pod|low on resource)"},
                    {"low on resource: ephemeral-storage", NULL}},
        .sentence = "Kubernetes evicted the pod: its node was short of memory or disk",
        .remedy = {"$ kubectl describe pod POD", "Request what the job needs, so that the "
                                                 "scheduler keeps it free"},
        .check = {"memory-available"},
    },
};

const diagnose_table DIAGNOSE_MEMORY = {ROWS, sizeof ROWS / sizeof *ROWS};
