// test_gpu_links.c -- the checks of the links of GPUs (doctor/gpu/gpu_links.c): each is silent on a healthy machine, and
// finds the fault that is planted.
#include "gpu_rig.h"

static void check_value(rig *r, const char *code, const char *planted, const char *issue)
{
    gpu_plant(r, planted);
    rig_expect_found(r, code, issue);
    gpu_heal(r);
}

static void test_pcie(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-pcie-width");
    check_value(&r, "gpu-pcie-width", "1.width 8",
                "The PCIe link of GPU 1 is x8 of x16, at most 32 GB/s in one direction");
    rig_expect_passed(&r, "gpu-pcie-generation"); // without work it is lower
    gpu_plant(&r, "1.utilization 90");
    rig_expect_found(&r, "gpu-pcie-generation", "The PCIe link of GPU 1 runs at generation 1 of 5");
    gpu_plant(&r, "1.generation 5");
    rig_expect_passed(&r, "gpu-pcie-generation");
    gpu_heal(&r);
    rig_expect_passed(&r, "gpu-pcie-replays");
    check_value(&r, "gpu-pcie-replays", "0.replays 70000",
                "The PCIe link of GPU 0 has repeated 70000 packets");
    rig_close(&r);
}

static void test_nvlink(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-nvlink-down");
    check_value(&r, "gpu-nvlink-down", "1.links 17", "GPU 1 has 17 active NVLinks of 18");
    check_value(&r, "gpu-nvlink-down", "0.links 4", "GPU 0 has 4 active NVLinks of 18");
    rig_expect_passed(&r, "gpu-nvlink-errors");
    check_value(&r, "gpu-nvlink-errors", "0.link_errors 4000",
                "The NVLinks of GPU 0 have had 4000 errors");
    gpu_plant(&r, "*.links 0");
    rig_expect_skipped(&r, "gpu-nvlink-down", "no GPU has an NVLink that is active");
    rig_close(&r);
}

static void test_fabric(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-fabric");
    check_value(&r, "gpu-fabric", "1.fabric 2",
                "The NVSwitch fabric is not ready: GPU 1 has not joined yet");
    check_value(&r, "gpu-fabric", "1.fabric 1",
                "The NVSwitch fabric is not ready: GPU 1 has not started to join");
    check_value(&r, "gpu-fabric", "0.fabric_status 999",
                "The NVSwitch fabric is not ready: GPU 0 could not join");
    gpu_plant(&r, "*.fabric !3"); // an older driver
    rig_expect_skipped(&r, "gpu-fabric", "this machine has no NVSwitch");
    gpu_device(&r, "0000:07:00.0", "0x10de\n", "0x068000\n");
    rig_expect_found_as(&r, "gpu-fabric", DOCTOR_WARNING,
                        "The NVSwitch fabric is not ready: the fabric manager is not seen to run");
    rig_write(&r, "/run/nvidia-fabricmanager/nv-fabricmanager.pid", "812\n");
    rig_expect_passed(&r, "gpu-fabric");
    rig_close(&r);
}

static void test_p2p(void **state)
{
    (void)state;
    rig r;
    gpu_rig_open(&r);
    rig_expect_passed(&r, "gpu-p2p");
    check_value(&r, "gpu-p2p", "0.p2p 1",
                "GPU 0 and GPU 1 do not reach each other's memory: the chipset does not support "
                "it");
    check_value(&r, "gpu-p2p", "0.p2p 9",
                "GPU 0 and GPU 1 do not reach each other's memory: the driver does not say why");
    gpu_plant(&r, "gpus 1");
    rig_expect_skipped(&r, "gpu-p2p", "this machine has one GPU");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_nvlink),
        cmocka_unit_test(test_fabric),
        cmocka_unit_test(test_p2p),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
