// test_environment.c -- faults of variables that `trireme doctor` must find, and healthy states.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor_rig.h"

// A variable that is fine, then one that is not.
static void expect(const char *code, const char *healthy, const char *faulty, const char *issue)
{
    rig r;
    rig_open(&r);
    rig_expect_passed(&r, code);
    if (healthy) rig_variable(&r, healthy);
    rig_expect_passed(&r, code);
    rig_variable(&r, faulty);
    rig_expect_found(&r, code, issue);
    rig_close(&r);
}

static void expect_as(const char *code, doctor_severity severity, const char *faulty,
                      const char *issue)
{
    rig r;
    rig_open(&r);
    rig_variable(&r, faulty);
    rig_expect_found_as(&r, code, severity, issue);
    rig_close(&r);
}

static void values_that_nobody_reads_are_found(void **state)
{
    (void)state;
    expect(
        "variable-value", "NCCL_P2P_LEVEL=NVL", "NCCL_P2P_LEVEL=nvl",
        "NCCL_P2P_LEVEL=nvl: NCCL does not use it; valid: LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, "
        "PHB, SYS, 0, 1, 2, 3, 4, 5");
    expect("variable-value", "NCCL_DEBUG=warn", "NCCL_DEBUG=VERBOSE",
           "NCCL_DEBUG=VERBOSE: NCCL prints nothing; valid: VERSION, WARN, INFO, ABORT, TRACE");
    expect("variable-value", "NCCL_NTHREADS=512", "NCCL_NTHREADS=1024",
           "NCCL_NTHREADS=1024: NCCL takes another number; valid: 64, 128, 256, 512");
    expect("variable-value", "NCCL_IB_TIMEOUT=22", "NCCL_IB_TIMEOUT=32",
           "NCCL_IB_TIMEOUT=32: NCCL does not use it; valid: 1 to 31");
    expect_as("variable-value", DOCTOR_ERROR, "NCCL_ALGO=Ring,Star",
              "NCCL_ALGO=Ring,Star: NCCL refuses to start; valid: Tree, Ring, CollNetDirect, "
              "CollNetChain, NVLS, NVLSTree, PAT");
    expect_as("variable-value", DOCTOR_ERROR, "NCCL_TIMEOUT=30min",
              "NCCL_TIMEOUT=30min: a run refuses to start; valid: a number of seconds");
    expect_as("variable-value", DOCTOR_ERROR, "MASTER_PORT=70000",
              "MASTER_PORT=70000: ranks cannot meet; valid: 1 to 65535");
    expect_as("variable-value", DOCTOR_ERROR, "TRIREME_TRANSPORT=tcp",
              "TRIREME_TRANSPORT=tcp: a run refuses to start; valid: auto, tls, ucx");
}

static void lists_of_functions_are_valid(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_variable(&r, "NCCL_ALGO=ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring");
    rig_variable(&r, "NCCL_PROTO=^LL128;allreduce:LL128");
    rig_variable(&r, "NCCL_DEBUG_SUBSYS=INIT,ENV");
    rig_expect_passed(&r, "variable-value");
    rig_close(&r);
}

static void names_that_nobody_reads_are_found(void **state)
{
    (void)state;
    expect("variable-unknown", "NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAMES=eth0",
           "NCCL does not know the variable NCCL_SOCKET_IFNAMES; did you mean NCCL_SOCKET_IFNAME?");
    expect("variable-unknown", "TORCH_NCCL_BLOCKING_WAIT=1", "TORCH_NCCL_BLOCKING_WAITS=1",
           "PyTorch does not know the variable TORCH_NCCL_BLOCKING_WAITS; did you mean "
           "TORCH_NCCL_BLOCKING_WAIT?");
    expect("variable-unknown", "TRIREME_CPU=avx2", "TRIREME_PORRIDGE=1",
           "Trireme does not know the variable TRIREME_PORRIDGE");
    expect("variable-renamed", "TORCH_NCCL_BLOCKING_WAIT=1", "NCCL_BLOCKING_WAIT=1",
           "NCCL_BLOCKING_WAIT is the old name of TORCH_NCCL_BLOCKING_WAIT");
    expect("variable-quotes", "NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=\"eth0\"",
           "NCCL_SOCKET_IFNAME has a quote or a space at an end of its value: [\"eth0\"]");
    expect("variable-quotes", "MASTER_ADDR=node1", "MASTER_ADDR=node1 ",
           "MASTER_ADDR has a quote or a space at an end of its value: [node1 ]");
}

static void variables_that_slow_a_run_are_found(void **state)
{
    (void)state;
    expect("nccl-timeout", NULL, "NCCL_TIMEOUT=1800",
           "NCCL_TIMEOUT=1800 is no variable of NCCL; Trireme reads it as checks.watchdog, in "
           "seconds");
    expect("nccl-p2p-disabled", "NCCL_P2P_DISABLE=0", "NCCL_P2P_DISABLE=1",
           "NCCL_P2P_DISABLE=1 switches peer access off over the communicator nccl");
    expect("nccl-shm-disabled", "NCCL_SHM_DISABLE=0", "NCCL_SHM_DISABLE=1",
           "NCCL_SHM_DISABLE=1 switches shared memory off over the communicator nccl");
    expect("nccl-tuning-left-on", "NCCL_SOCKET_IFNAME=eth0", "NCCL_PROTO=Simple",
           "NCCL_PROTO=Simple takes a choice from NCCL");
    expect("debug-left-on", "CUDA_LAUNCH_BLOCKING=0", "CUDA_LAUNCH_BLOCKING=1",
           "CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel, so nothing overlaps");
    expect_as("debug-left-on", DOCTOR_NOTE, "NCCL_DEBUG=INFO",
              "NCCL_DEBUG=INFO: each rank prints many lines");
    expect("cpu-instructions", "TRIREME_CPU=auto", "TRIREME_CPU=generic",
           "TRIREME_CPU=generic keeps kernels from using vector instructions");
    expect("cuda-one-connection", "CUDA_DEVICE_MAX_CONNECTIONS=8", "CUDA_DEVICE_MAX_CONNECTIONS=1",
           "CUDA_DEVICE_MAX_CONNECTIONS=1 puts all streams of a GPU into one queue");
}

static void files_of_nccl_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_write(&r, "/etc/topology.xml", "<system/>\n");
    rig_variable(&r, "NCCL_TOPO_FILE=/etc/topology.xml");
    rig_expect_passed(&r, "nccl-files");
    rig_remove(&r, "/etc/topology.xml");
    rig_expect_found(&r, "nccl-files",
                     "NCCL_TOPO_FILE names /etc/topology.xml, which cannot be read");
    rig_write(&r, "/root/.nccl.conf", "# empty\n");
    rig_expect_passed(&r, "nccl-conf");
    rig_write(&r, "/root/.nccl.conf", "# of the site\nNCCL_IB_DISABLE=1\n");
    rig_expect_found(&r, "nccl-conf",
                     "/root/.nccl.conf sets NCCL_IB_DISABLE, though it is not in the environment");
    rig_close(&r);
}

static void devices_of_cuda_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_folder(&r, "/proc/driver/nvidia/gpus/0000:01:00.0");
    rig_folder(&r, "/proc/driver/nvidia/gpus/0000:02:00.0");
    rig_expect_passed(&r, "cuda-visible-devices");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=1,0");
    rig_expect_passed(&r, "cuda-visible-devices");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=GPU-8932f937");
    rig_expect_passed(&r, "cuda-visible-devices");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=0,2");
    rig_expect_found(&r, "cuda-visible-devices",
                     "CUDA_VISIBLE_DEVICES=\"0,2\": entry 2 (2) is no GPU of this machine");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=0,0");
    rig_expect_found(&r, "cuda-visible-devices",
                     "CUDA_VISIBLE_DEVICES=\"0,0\": entry 2 (0) is there twice");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=cuda:0");
    rig_expect_found(
        &r, "cuda-visible-devices",
        "CUDA_VISIBLE_DEVICES=\"cuda:0\": entry 1 (cuda:0) is no number of a GPU and no UUID");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=");
    rig_expect_found(&r, "cuda-visible-devices", "CUDA_VISIBLE_DEVICES=\"\": hides all GPUs");
    rig_close(&r);
}

static void libraries_that_do_not_fit_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_variable(&r, "LD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64:/usr/local/cuda-12.4/lib64/stubs");
    rig_expect_passed(&r, "cuda-versions-mixed");
    rig_expect_passed(&r, "cuda-stubs");
    rig_write(&r, "/usr/local/cuda-12.4/lib64/stubs/libcuda.so", "");
    rig_expect_found(
        &r, "cuda-stubs",
        "LD_LIBRARY_PATH has /usr/local/cuda-12.4/lib64/stubs, whose libcuda.so is only "
        "for linking");
    rig_write(&r, "/usr/local/cuda-12.4/lib64/stubs/libcuda.so.1", "");
    rig_expect_found_as(
        &r, "cuda-stubs", DOCTOR_ERROR,
        "LD_LIBRARY_PATH has /usr/local/cuda-12.4/lib64/stubs, whose libcuda.so.1 is "
        "only for linking");
    rig_variable(&r, "LD_LIBRARY_PATH=/usr/local/cuda-11.8/lib64:/usr/local/cuda-12.4/lib64");
    rig_expect_found(&r, "cuda-versions-mixed",
                     "LD_LIBRARY_PATH has folders of CUDA 11.8 and of CUDA 12.4");
    rig_write(&r, "/usr/lib/libjemalloc.so.2", "");
    rig_variable(&r, "LD_PRELOAD=/usr/lib/libjemalloc.so.2");
    rig_expect_passed(&r, "preload");
    rig_variable(&r, "LD_PRELOAD=/usr/lib/libjemalloc.so.2:/opt/gone.so");
    rig_expect_found(&r, "preload", "LD_PRELOAD names /opt/gone.so, which does not exist");
    rig_close(&r);
}

static void folders_threads_and_the_locale_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_expect_passed(&r, "temporary-folder");
    rig_variable(&r, "TMPDIR=/scratch");
    rig_expect_found(&r, "temporary-folder", "/scratch (TMPDIR) does not exist");
    rig_write(&r, "/scratch", "");
    rig_expect_found(&r, "temporary-folder", "/scratch (TMPDIR) is no folder");
    rig_expect_passed(&r, "locale");
    rig_variable(&r, "LC_ALL=POSIX");
    rig_expect_found(&r, "locale", "LC_ALL is POSIX, which is not UTF-8");
    rig_write(&r, "/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8\n");
    r.context.ranks = 2;
    rig_variable(&r, "OMP_NUM_THREADS=2");
    rig_expect_passed(&r, "openmp-threads");
    rig_variable(&r, "OMP_NUM_THREADS=3");
    rig_expect_found(
        &r, "openmp-threads",
        "OMP_NUM_THREADS gives all ranks of this host 6 threads; they may use 5 cores");
    rig_close(&r);
}

static void a_proxy_between_ranks_is_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_variable(&r, "http_proxy=http://proxy:3128");
    rig_expect_skipped(&r, "proxy", "no host is named at which ranks meet");
    r.context.peer = "node1.cluster";
    rig_expect_found(
        &r, "proxy",
        "http_proxy is set, and no_proxy does not name node1.cluster, where ranks meet");
    rig_variable(&r, "no_proxy=localhost,.cluster");
    rig_expect_passed(&r, "proxy");
    rig_close(&r);
}

static void ranks_that_do_not_fit_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_variable(&r, "WORLD_SIZE=8");
    rig_variable(&r, "RANK=7");
    rig_expect_passed(&r, "rank-variables");
    rig_expect_found(&r, "rank-left-over",
                     "RANK=7 and WORLD_SIZE=8 are set, and no launcher has set LOCAL_RANK");
    rig_variable(&r, "RANK=8");
    rig_expect_found(&r, "rank-variables", "RANK=8 is no rank of WORLD_SIZE=8");
    rig_variable(&r, "RANK=x");
    rig_expect_found(&r, "rank-variables", "RANK=x of WORLD_SIZE=8: not both are whole numbers");
    rig_close(&r);
    expect("rank-variables", NULL, "PMI_RANK=0", "PMI_RANK=0 is set without PMI_SIZE");
    expect("master-variables", NULL, "MASTER_ADDR=node1",
           "MASTER_ADDR=node1 is set without MASTER_PORT");
    rig_open(&r);
    rig_variable(&r, "MASTER_ADDR=node1");
    rig_variable(&r, "MASTER_PORT=29500");
    rig_expect_passed(&r, "master-variables");
    rig_variable(&r, "RANK=0");
    rig_variable(&r, "WORLD_SIZE=2");
    rig_variable(&r, "LOCAL_RANK=0");
    rig_expect_passed(&r, "rank-left-over");
    rig_close(&r);
}

static void two_launchers_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_variable(&r, "SLURM_STEP_TASKS_PER_NODE=1(x2)");
    rig_variable(&r, "SLURM_STEP_NUM_TASKS=2");
    rig_variable(&r, "LOCAL_WORLD_SIZE=4");
    rig_variable(&r, "WORLD_SIZE=2");
    rig_expect_passed(&r, "started-twice");
    rig_expect_passed(&r, "launchers-disagree");
    rig_variable(&r, "SLURM_STEP_TASKS_PER_NODE=4(x2)");
    rig_variable(&r, "SLURM_STEP_NUM_TASKS=8");
    rig_expect_found(
        &r, "started-twice",
        "srun starts 4 tasks on this host, and the launcher in each starts 4 processes");
    rig_expect_found(&r, "launchers-disagree", "SLURM_STEP_NUM_TASKS=8, but WORLD_SIZE=2");
    rig_close(&r);
}

static void a_broken_tf_config_is_found(void **state)
{
    (void)state;
    const char *healthy = "TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, "
                          "\"task\": {\"type\": \"worker\", \"index\": 1}}";
    expect("tf-config", healthy, "TF_CONFIG={'cluster': {}}", "TF_CONFIG is no object of JSON");
    expect("tf-config", healthy, "TF_CONFIG={}", "TF_CONFIG has no object \"cluster\"");
    expect("tf-config", healthy, "TF_CONFIG={\"cluster\": {}}",
           "TF_CONFIG has no \"task\" with \"type\" and \"index\"");
    expect("tf-config", healthy,
           "TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", "
           "\"index\": 1}}",
           "TF_CONFIG has an index of its task that is no host of the list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_nobody_reads_are_found),
        cmocka_unit_test(lists_of_functions_are_valid),
        cmocka_unit_test(names_that_nobody_reads_are_found),
        cmocka_unit_test(variables_that_slow_a_run_are_found),
        cmocka_unit_test(files_of_nccl_are_found),
        cmocka_unit_test(devices_of_cuda_are_found),
        cmocka_unit_test(libraries_that_do_not_fit_are_found),
        cmocka_unit_test(folders_threads_and_the_locale_are_found),
        cmocka_unit_test(a_proxy_between_ranks_is_found),
        cmocka_unit_test(ranks_that_do_not_fit_are_found),
        cmocka_unit_test(two_launchers_are_found),
        cmocka_unit_test(a_broken_tf_config_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
