// test_pci.c -- the checks of doctor/pci/: each is silent on a healthy machine, and finds the fault that is planted.
#include "gpu_rig.h"

#include "doctor/pci/pci.h"

static void write_of(rig *r, const char *address, const char *file, const char *content)
{
    char path[160];
    (void)snprintf(path, sizeof path, GPU_BUS "%s/%s", address, file);
    rig_write(r, path, content);
}

static void write_link(rig *r, const char *address, const char *now, const char *speed)
{
    write_of(r, address, "current_link_width", now);
    write_of(r, address, "max_link_width", "16\n");
    write_of(r, address, "current_link_speed", speed);
    write_of(r, address, "max_link_speed", "32.0 GT/s PCIe\n");
}

// Two GPUs and a network card below one bridge.
static void open_bus(rig *r)
{
    gpu_rig_open(r);
    gpu_device(r, "0000:18:00.0", "0x15b3\n", "0x020700\n");
    write_link(r, "0000:00:01.0", "16\n", "32.0 GT/s PCIe\n");
    write_link(r, "0000:1b:00.0", "16\n", "2.5 GT/s PCIe\n"); // a GPU without work
    write_link(r, "0000:43:00.0", "16\n", "2.5 GT/s PCIe\n");
    write_link(r, "0000:18:00.0", "16\n", "32.0 GT/s PCIe\n");
}

static void test_the_list_and_the_bridge(void **state)
{
    (void)state;
    rig r;
    pci_list bus;
    char bridge[PCI_ADDRESS_BYTES];
    err e = {.code = OK};
    open_bus(&r);
    rig_must(pci_read(&r.context, &bus, &e), &e);
    assert_int_equal(bus.count, 3);
    assert_int_equal(pci_count(&bus, PCI_GPU), 2);
    assert_string_equal(bus.device[0].address, "0000:18:00.0");
    assert_int_equal(bus.device[0].kind, PCI_NETWORK);
    assert_true(pci_parent(&r.context, "0000:1b:00.0", bridge));
    assert_string_equal(bridge, "0000:00:01.0");
    assert_false(pci_parent(&r.context, "0000:00:01.0", bridge));
    pci_clear(&bus);
    rig_close(&r);
}

static void test_width(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    rig_expect_passed(&r, "pci-link-width");
    write_of(&r, "0000:1b:00.0", "current_link_width", "8\n");
    rig_expect_found(&r, "pci-link-width", "The PCIe link of the GPU 0000:1b:00.0 is x8 of x16");
    write_of(&r, "0000:00:01.0", "max_link_width", "8\n"); // a slot of half width
    write_of(&r, "0000:18:00.0", "current_link_width", "8\n");
    write_of(&r, "0000:18:00.0", "max_link_width", "8\n");
    write_of(&r, "0000:43:00.0", "max_link_width", "8\n");
    rig_expect_found_as(&r, "pci-link-width", DOCTOR_NOTE,
                        "The PCIe link of the GPU 0000:1b:00.0 is x8 of x16, because its slot has "
                        "no more");
    rig_close(&r);
}

static void test_speed(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    rig_expect_passed(&r, "pci-link-speed");
    write_of(&r, "0000:18:00.0", "current_link_speed", "8.0 GT/s PCIe\n");
    rig_expect_found(
        &r, "pci-link-speed",
        "The PCIe link of the network card 0000:18:00.0 runs at 8.0 GT/s PCIe; card and "
        "slot can do 32.0 GT/s PCIe");
    write_of(&r, "0000:00:01.0", "max_link_speed", "Unknown\n");
    rig_expect_found(
        &r, "pci-link-speed",
        "The PCIe link of the network card 0000:18:00.0 runs at 8.0 GT/s PCIe; card and "
        "slot can do 32.0 GT/s PCIe");
    write_of(&r, "0000:00:01.0", "max_link_speed", "8.0 GT/s PCIe\n");
    rig_expect_passed(&r, "pci-link-speed");
    rig_close(&r);
}

static void test_errors(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    write_of(&r, "0000:1b:00.0", "aer_dev_fatal", "DLP 0\nSDES 0\nTOTAL_ERR_FATAL 0\n");
    write_of(&r, "0000:1b:00.0", "aer_dev_nonfatal", "DLP 0\nSDES 0\nTOTAL_ERR_NONFATAL 0\n");
    write_of(&r, "0000:1b:00.0", "aer_dev_correctable", "RxErr 12\nTOTAL_ERR_COR 12\n");
    rig_expect_passed(&r, "pci-aer");
    write_of(&r, "0000:1b:00.0", "aer_dev_correctable", "RxErr 1000\nTOTAL_ERR_COR 1000\n");
    rig_expect_passed(&r, "pci-aer");
    write_of(&r, "0000:1b:00.0", "aer_dev_correctable", "RxErr 9000\nTOTAL_ERR_COR 9000\n");
    rig_expect_found(
        &r, "pci-aer",
        "The GPU 0000:1b:00.0 has had 9000 errors that were corrected on its PCIe link");
    write_of(&r, "0000:1b:00.0", "aer_dev_nonfatal", "CmpltTO 3\nTOTAL_ERR_NONFATAL 3\n");
    rig_expect_found(&r, "pci-aer",
                     "The GPU 0000:1b:00.0 has had 3 errors that were not corrected on its PCIe "
                     "link");
    rig_close(&r);
}

static void test_iommu(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    write_of(&r, "0000:1b:00.0", "iommu_group/type", "identity\n");
    write_of(&r, "0000:43:00.0", "iommu_group/type", "identity\n");
    rig_expect_passed(&r, "pci-iommu");
    write_of(&r, "0000:43:00.0", "iommu_group/type", "DMA-FQ\n");
    rig_expect_found(&r, "pci-iommu",
                     "The IOMMU translates accesses of GPU 0000:43:00.0 (its group is of type "
                     "DMA-FQ)");
    rig_remove(&r, GPU_BUS "0000:1b:00.0");
    rig_expect_skipped(&r, "pci-iommu", "the GPU has no other device to exchange data with");
    rig_close(&r);
}

// Writes the configuration of the bridge: an extended capability of another kind, and then ACS with these controls.
static void write_acs(rig *r, unsigned char controls, size_t bytes)
{
    unsigned char config[4096] = {0};
    config[0x100] = 0x01; // AER, version 1, next at 0x140
    config[0x102] = 0x01;
    config[0x103] = 0x14;
    config[0x140] = 0x0d; // ACS, version 1, the last
    config[0x142] = 0x01;
    config[0x146] = controls;
    rig_write_bytes(r, GPU_BUS "0000:00:01.0/config", config, bytes);
}

static void test_acs(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    rig_remove(&r, GPU_BUS "0000:43:00.0");
    rig_folder(&r, "/sys/class/infiniband/mlx5_0");
    write_acs(&r, 0x01, 4096); // source validation alone does not redirect
    rig_expect_passed(&r, "pci-acs");
    write_acs(&r, 0x1d, 4096);
    rig_expect_found(&r, "pci-acs",
                     "ACS of the bridge 0000:00:01.0 sends traffic between GPU 0000:1b:00.0 and "
                     "others to the root complex");
    write_acs(&r, 0x1d, 64); // as the kernel shows it without root
    rig_expect_blind(&r, "pci-acs", "only root may read the configuration of PCI bridges");
    rig_close(&r);
}

static void test_peermem(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    rig_expect_skipped(&r, "pci-peermem", "this machine has no InfiniBand or RoCE card");
    rig_folder(&r, "/sys/class/infiniband/mlx5_0");
    rig_folder(&r, "/sys/module/nvidia_peermem");
    rig_expect_passed(&r, "pci-peermem");
    rig_remove(&r, "/sys/module/nvidia_peermem");
    rig_expect_found(&r, "pci-peermem",
                     "The card mlx5_0 does not reach memory of GPUs: nvidia_peermem is not loaded");
    rig_write(
        &r, "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n");
    rig_expect_passed(&r, "pci-peermem");
    rig_close(&r);
}

static void test_numa(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    rig_remove(&r, GPU_BUS "0000:43:00.0");
    write_of(&r, "0000:1b:00.0", "numa_node", "0\n");
    rig_expect_skipped(&r, "pci-numa", "this machine has one NUMA node");
    rig_write(&r, "/sys/devices/system/node/node1/cpulist", "32-63\n");
    rig_expect_passed(&r, "pci-numa");
    write_of(&r, "0000:1b:00.0", "numa_node", "-1\n");
    rig_expect_found(&r, "pci-numa", "The machine does not tell the NUMA node of GPU 0000:1b:00.0");
    rig_close(&r);
}

static void test_resizable_bar(void **state)
{
    (void)state;
    rig r;
    open_bus(&r);
    write_of(&r, "0000:1b:00.0", "resource1_resize", "0000000000008000\n"); // 32 GiB
    write_of(&r, "0000:1b:00.0", "resource",
             "0x00000000fa000000 0x00000000faffffff 0x0000000000040200\n"
             "0x0000007800000000 0x0000007fffffffff 0x000000000014220c\n");
    rig_expect_passed(&r, "pci-resizable-bar");
    write_of(&r, "0000:1b:00.0", "resource",
             "0x00000000fa000000 0x00000000faffffff 0x0000000000040200\n"
             "0x00000000e0000000 0x00000000efffffff 0x000000000014220c\n");
    rig_expect_found(&r, "pci-resizable-bar",
                     "The BAR of GPU 0000:1b:00.0 is 256.00 MiB; it can be 32.00 GiB");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_and_the_bridge),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_iommu),
        cmocka_unit_test(test_acs),
        cmocka_unit_test(test_peermem),
        cmocka_unit_test(test_numa),
        cmocka_unit_test(test_resizable_bar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
