// test_gpu.c -- the checks of doctor/gpu/ but those of links (test_gpu_links.c): each is silent on a healthy machine, and
// finds the fault that is planted.
#include "gpu_rig.h"

#include "doctor/gpu/gpus.h"

static void test_a_machine_without_gpus_skips_the_checks(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_expect_skipped(&r, "gpu-driver", "this machine has no NVIDIA GPU");
    rig_expect_skipped(&r, "gpu-nouveau", "this machine has no NVIDIA GPU");
    rig_expect_skipped(&r, "gpu-ecc-uncorrected", "this machine has no NVIDIA GPU");
    rig_expect_skipped(&r, "gpu-nodes", "this machine has no NVIDIA GPU");
    rig_expect_skipped(&r, "gpu-libraries", "this machine has no NVIDIA GPU");
    rig_expect_skipped(&r, "gpu-visible", "this machine has no NVIDIA GPU");
    rig_close(&r);
}

// As in a container that does not see the PCI bus.
static void test_gpus_that_only_nvml_shows_are_checked(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_remove(&r, "/sys/bus");
    rig_remove(&r, "/dev/nvidia0");
    rig_remove(&r, "/dev/nvidia1");
    rig_expect_passed(&r, "gpu-mig");
    gpu_plant(&r, "gpus 0");
    rig_expect_skipped(&r, "gpu-mig", "this machine has no NVIDIA GPU");
    gpu_plant(&r, "init !9");
    rig_expect_skipped(&r, "gpu-mig", "this machine has no NVIDIA GPU");
    rig_close(&r);
}

// Values that are just good.
static void test_limits_are_exact(void **state)
{
    (void)state;
    rig r;
    char line[32];
    gpu_rig_open(&r);
    gpu_plant(&r, "*.ecc_corrected 1000");
    rig_expect_passed(&r, "gpu-ecc-corrected");
    gpu_plant(&r, "*.replays 1000");
    rig_expect_passed(&r, "gpu-pcie-replays");
    gpu_plant(&r, "*.link_errors 100");
    rig_expect_passed(&r, "gpu-nvlink-errors");
    gpu_plant(&r, "*.temperature 86");
    rig_expect_passed(&r, "gpu-temperature");
    gpu_plant(&r, "0.temperature 87");
    rig_expect_found(&r, "gpu-temperature", "GPU 0 has 87 degrees Celsius; it slows down at 87");
    gpu_plant(&r, "*.used 1073741824");
    rig_expect_passed(&r, "gpu-memory-taken");
    snprintf(line, sizeof line, "cuda %d", gpu_cuda_least());
    gpu_plant(&r, line);
    rig_expect_passed(&r, "gpu-cuda-version");
    rig_close(&r);
}

// ---- Driver

static void test_driver(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-driver");
    gpu_plant(&r, "init !9");
    rig_expect_found(&r, "gpu-driver",
                     "This machine has an NVIDIA GPU, and NVML does not start: Driver Not Loaded");
    rig_expect_blind(&r, "gpu-slowdown", "NVML: Driver Not Loaded (see gpu-driver)");
    r.context.nvml = "/nonexistent/libnvidia-ml.so.1";
    rig_expect_found(
        &r, "gpu-driver",
        "This machine has an NVIDIA GPU, and NVML does not start: the library cannot be opened");
    rig_close(&r);
}

static void test_nouveau(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-nouveau");
    rig_write(&r, "/proc/modules", "ttm 98304 1 nouveau, Live 0x0\n");
    rig_expect_passed(&r, "gpu-nouveau");
    rig_write(&r, "/proc/modules", "ttm 98304 1 nouveau, Live 0x0\nnouveau 2433024 0 - Live 0x0\n");
    rig_expect_found(&r, "gpu-nouveau",
                     "The kernel has loaded nouveau, which holds the NVIDIA GPUs");
    rig_close(&r);
}

static void test_driver_match(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-driver-match");
    gpu_plant(&r, "init !18");
    gpu_plant(&r, "library 12.570.86.15");
    rig_expect_found(
        &r, "gpu-driver-match",
        "The kernel's NVIDIA module is 550.54.15, and the library NVML is 12.570.86.15");
    rig_expect_passed(&r, "gpu-driver"); // one fault, one finding
    rig_close(&r);
}

static void test_cuda_version(void **state)
{
    (void)state;
    rig r;
    char issue[128];
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-cuda-version");
    gpu_plant(&r, "cuda 11080");
    snprintf(issue, sizeof issue,
             "The driver runs programs of CUDA 11.8 at most; this build needs %d.0",
             gpu_cuda_least() / 1000);
    rig_expect_found_as(&r, "gpu-cuda-version", gpu_severity(), issue);
    rig_close(&r);
}

static void test_nodes(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-nodes");
    rig_remove(&r, "/dev/nvidia-uvm");
    rig_expect_found(&r, "gpu-nodes", "The driver is loaded, and /dev/nvidia-uvm does not exist");
    rig_remove(&r, "/proc/driver/nvidia/version");
    rig_expect_skipped(&r, "gpu-nodes", "the module of NVIDIA's driver is not loaded");
    rig_close(&r);
}

static void test_libraries(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_write(&r, "/etc/ld.so.conf.d/cuda.conf", "# CUDA\n/opt/cuda/lib64\n");
    rig_write(&r, "/opt/cuda/lib64/libcublasLt.so.12", "");
    rig_write(&r, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.13.0", "");
    rig_link(&r, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "libcudnn.so.9.13.0");
    rig_variable(&r, "LD_LIBRARY_PATH=/home/user/nccl/lib:relative");
    rig_write(&r, "/home/user/nccl/lib/libnccl.so.2.27.3", "");
    rig_link(&r, "/home/user/nccl/lib/libnccl.so.2", "libnccl.so.2.27.3");
    rig_expect_passed(&r, "gpu-libraries");
    rig_write(&r, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.8.0", "");
    rig_link(&r, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "libcudnn.so.9.8.0");
    rig_expect_found(&r, "gpu-libraries",
                     "cuDNN is of version 9.8; valid is 9.11 or later: attention takes slower "
                     "kernels");
    rig_write(&r, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.11.0", "");
    rig_link(&r, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "libcudnn.so.9.11.0");
    rig_expect_passed(&r, "gpu-libraries");
    rig_remove(&r, "/opt/cuda/lib64/libcublasLt.so.12");
    rig_expect_found_as(&r, "gpu-libraries", gpu_severity(),
                        "cuBLASLt is not found (libcublasLt.so.13): the device cuda does not open");
    rig_close(&r);
}

// ---- Which GPUs

static void test_missing(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-missing");
    gpu_plant(&r, "1.handle !15");
    rig_expect_found(&r, "gpu-missing", "1 of 2 GPUs of this machine answer to NVML");
    gpu_plant(&r, "0.handle !15");
    rig_expect_found(&r, "gpu-missing", "0 of 2 GPUs of this machine answer to NVML");
    rig_expect_blind(&r, "gpu-mig", "NVML lists no GPU that answers (see gpu-missing)");
    gpu_heal(&r);
    gpu_plant(&r, "gpus 1");
    rig_expect_found(&r, "gpu-missing", "1 of 2 GPUs of this machine answer to NVML");
    rig_remove(&r, "/dev/nvidia1"); // as in a container that was given one
    rig_expect_found_as(&r, "gpu-missing", DOCTOR_NOTE,
                        "1 of 2 GPUs on the PCI bus answer to NVML");
    rig_close(&r);
}

static void test_visible(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-visible");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=1,GPU-aaaa");
    rig_expect_passed(&r, "gpu-visible");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=1");
    rig_expect_found(&r, "gpu-visible", "CUDA_VISIBLE_DEVICES=1 leaves 1 of 2 GPUs");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=");
    rig_expect_found(&r, "gpu-visible", "CUDA_VISIBLE_DEVICES= leaves 0 of 2 GPUs");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=0,7");
    rig_expect_found_as(&r, "gpu-visible", DOCTOR_WARNING,
                        "CUDA_VISIBLE_DEVICES=0,7 leaves 1 of 2 GPUs, because it names one that "
                        "does not exist");
    rig_variable(&r, "CUDA_VISIBLE_DEVICES=0,0");
    rig_expect_found_as(&r, "gpu-visible", DOCTOR_WARNING,
                        "CUDA_VISIBLE_DEVICES=0,0 leaves 0 of 2 GPUs, because it names one twice");
    rig_close(&r);
}

static void test_mixed(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-mixed");
    gpu_plant(&r, "1.name NVIDIA A100-SXM4-80GB");
    rig_expect_found(
        &r, "gpu-mixed",
        "GPU 1 is a NVIDIA A100-SXM4-80GB of 79.65 GiB; the first GPU is a NVIDIA H100 "
        "80GB HBM3 of 79.65 GiB");
    gpu_heal(&r);
    gpu_plant(&r, "1.memory 42949672960");
    rig_expect_found(
        &r, "gpu-mixed",
        "GPU 1 is a NVIDIA H100 80GB HBM3 of 40.00 GiB; the first GPU is a NVIDIA H100 "
        "80GB HBM3 of 79.65 GiB");
    rig_close(&r);
}

// A value of NVML that is a fault: silent before it is planted, and one finding after.
static void check_value(rig *r, const char *code, const char *planted, const char *issue)
{
    gpu_plant(r, planted);
    rig_expect_found(r, code, issue);
    gpu_heal(r);
}

static void test_modes(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-vbios");
    check_value(&r, "gpu-vbios", "1.vbios 96.00.61.00.01",
                "GPU 1 has the firmware (VBIOS) 96.00.61.00.01; the first GPU has 96.00.89.00.01");
    rig_expect_passed(&r, "gpu-persistence");
    check_value(&r, "gpu-persistence", "1.persistence 0", "Persistence mode of GPU 1 is off");
    rig_expect_passed(&r, "gpu-mig");
    check_value(&r, "gpu-mig", "0.mig 1", "GPU 0 is divided (MIG mode is on)");
    rig_expect_passed(&r, "gpu-display");
    check_value(&r, "gpu-display", "0.display 1", "GPU 0 draws a screen");
    rig_expect_passed(&r, "gpu-compute-mode");
    check_value(&r, "gpu-compute-mode", "1.compute_mode 2",
                "The compute mode of GPU 1 is Prohibited, which allows no program");
    gpu_plant(&r, "0.compute_mode 3");
    r.context.ranks = 2;
    rig_expect_passed(&r, "gpu-compute-mode");
    r.context.ranks = 4;
    rig_expect_found(&r, "gpu-compute-mode",
                     "The compute mode of GPU 0 is Exclusive_Process, which allows one process, "
                     "and more ranks than GPUs would run");
    rig_close(&r);
}

// ---- Memory

static void test_errors_of_memory(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-ecc-uncorrected");
    check_value(&r, "gpu-ecc-uncorrected", "1.ecc_uncorrected 2",
                "GPU 1 has had 2 errors of memory that ECC could not correct since the driver was "
                "loaded");
    rig_expect_passed(&r, "gpu-ecc-corrected");
    check_value(&r, "gpu-ecc-corrected", "0.ecc_corrected 5000",
                "ECC of GPU 0 has corrected 5000 errors of memory since the driver was loaded");
    rig_expect_passed(&r, "gpu-ecc-off");
    check_value(&r, "gpu-ecc-off", "0.ecc 0", "ECC of GPU 0 is off, and stays so");
    rig_expect_passed(&r, "gpu-retired-pages");
    check_value(&r, "gpu-retired-pages", "0.pages_pending 1",
                "GPU 0 retires pages of memory at the next start of its driver");
    rig_expect_passed(&r, "gpu-remapped-rows");
    check_value(&r, "gpu-remapped-rows", "0.rows_pending 1",
                "GPU 0 has a row of memory that is replaced at the next reset");
    gpu_plant(&r, "0.rows_failed 1");
    rig_expect_found_as(&r, "gpu-remapped-rows", DOCTOR_ERROR,
                        "GPU 0 has a row of memory that could not be replaced");
    gpu_heal(&r);
    rig_expect_passed(&r, "gpu-recovery");
    check_value(&r, "gpu-recovery", "1.recovery 1", "The driver says that GPU 1 needs a reset");
    check_value(&r, "gpu-recovery", "1.recovery 5",
                "The driver says that GPU 1 needs an action that is not known");
    gpu_plant(&r, "*.ecc !3"); // GeForce
    rig_expect_skipped(&r, "gpu-ecc-off", "these GPUs have no ECC");
    rig_close(&r);
}

static void test_use_of_memory(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-processes");
    check_value(&r, "gpu-processes", "1.processes 4000001 4000002",
                "Other processes compute on GPU 1: 4000001, 4000002");
    rig_expect_passed(&r, "gpu-memory-taken");
    check_value(&r, "gpu-memory-taken", "1.used 42949672960",
                "40.00 GiB of GPU 1 are in use, and no process is seen that uses them");
    gpu_plant(&r, "1.used 42949672960");
    gpu_plant(&r, "1.processes 4000001");
    rig_expect_passed(&r, "gpu-memory-taken");
    gpu_heal(&r);
    rig_expect_passed(&r, "gpu-memory-size");
    check_value(&r, "gpu-memory-size", "0.memory 42949672960",
                "GPU 0 (NVIDIA H100 80GB HBM3) has 40.00 GiB of memory");
    rig_expect_passed(&r, "gpu-bar1");
    check_value(&r, "gpu-bar1", "0.bar 268435456",
                "256.00 MiB of the 79.65 GiB of GPU 0 can be addressed over PCIe");
    gpu_plant(&r, "*.memory !13"); // a driver that knows the older function alone
    gpu_plant(&r, "*.old_memory 85520809984");
    gpu_plant(&r, "0.old_memory 42949672960");
    rig_expect_found(&r, "gpu-memory-size",
                     "GPU 0 (NVIDIA H100 80GB HBM3) has 40.00 GiB of memory");
    rig_close(&r);
}

// ---- Power and clocks

static void test_clocks(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-slowdown");
    check_value(&r, "gpu-slowdown", "1.reasons 0x48",
                "GPU 1 lowers its clocks: the GPU is too hot");
    check_value(&r, "gpu-slowdown", "1.reasons 0x88",
                "GPU 1 lowers its clocks: the machine's power supply asks for it");
    check_value(&r, "gpu-slowdown", "1.reasons 0x20",
                "GPU 1 lowers its clocks: the GPU is close to its limit of temperature");
    check_value(&r, "gpu-slowdown", "1.reasons 0x8",
                "GPU 1 lowers its clocks: the GPU's hardware asks for it");
    rig_expect_passed(&r, "gpu-power-cap");
    check_value(&r, "gpu-power-cap", "0.reasons 0x4",
                "GPU 0 is at its limit of power, 700 W, and lowers its clocks");
    rig_expect_passed(&r, "gpu-power-limit");
    check_value(&r, "gpu-power-limit", "0.power_limit 400000",
                "The limit of power of GPU 0 is 400 W; its default is 700 W");
    rig_expect_passed(&r, "gpu-clock-limit");
    check_value(&r, "gpu-clock-limit", "1.clock 1200",
                "The clock of GPU 1 is set to 1200 MHz; its default is 1980 MHz");
    gpu_plant(&r, "*.clock_default !26"); // a driver that does not tell it any more
    check_value(&r, "gpu-clock-limit", "1.clock 1200",
                "The clock of GPU 1 is set to 1200 MHz; its default is 1980 MHz");
    rig_expect_passed(&r, "gpu-temperature");
    check_value(&r, "gpu-temperature", "1.temperature 91",
                "GPU 1 has 91 degrees Celsius; it slows down at 87");
    rig_expect_passed(&r, "gpu-stalled");
    check_value(&r, "gpu-stalled", "1.utilization 100",
                "GPU 1 is 100 % busy and takes 70 W of 700 W");
    gpu_plant(&r, "*.utilization 100");
    gpu_plant(&r, "*.power 640000");
    rig_expect_passed(&r, "gpu-stalled");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_machine_without_gpus_skips_the_checks),
        cmocka_unit_test(test_gpus_that_only_nvml_shows_are_checked),
        cmocka_unit_test(test_limits_are_exact),
        cmocka_unit_test(test_driver),
        cmocka_unit_test(test_nouveau),
        cmocka_unit_test(test_driver_match),
        cmocka_unit_test(test_cuda_version),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_visible),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_errors_of_memory),
        cmocka_unit_test(test_use_of_memory),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
