// test_rdma.c -- the checks of InfiniBand and RoCE ports: each finds its planted fault, and is silent on a healthy machine.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor_rig.h"

#define NONE "there is no InfiniBand or RoCE device"

static void add_port(rig *r, const char *device, const char *layer)
{
    char path[160];
    const char *const files[][2] = {
        {"ports/1/state", "4: ACTIVE\n"},
        {"ports/1/phys_state", "5: LinkUp\n"},
        {"ports/1/rate", "400 Gb/sec (4X NDR)\n"},
        {"ports/1/link_layer", layer},
        {"ports/1/counters/link_downed", "1\n"},
        {"ports/1/counters/symbol_error", "0\n"},
        {"ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n"},
        {"ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n"},
        {"ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
        {"ports/1/gid_attrs/types/0", "IB/RoCE v1\n"},
        {"ports/1/gid_attrs/types/1", "RoCE v2\n"},
        {"device/net/eth0/mtu", "9000\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", device, files[i][0]);
        rig_write(r, path, files[i][1]);
    }
}

static void open_ports(rig *r, const char *layer)
{
    rig_open(r);
    add_port(r, "mlx5_0", layer);
    add_port(r, "mlx5_1", layer);
    rig_write(r, "/dev/infiniband/uverbs0", "");
}

static void ib_state(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_passed(&r, "ib-state");
    rig_write(&r, "/sys/class/infiniband/mlx5_1/ports/1/state", "2: INIT\n");
    rig_expect_found(&r, "ib-state",
                     "mlx5_1:1 has a link, but its state is INIT instead of ACTIVE");
    rig_remove(&r, "/sys/class/infiniband");
    rig_expect_skipped(&r, "ib-state", NONE);
    rig_close(&r);
}

static void ib_cable(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_passed(&r, "ib-cable");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/ports/1/phys_state", "2: Polling\n");
    rig_expect_found(&r, "ib-cable", "mlx5_0:1 has no link (Polling)");
    rig_expect_passed(&r, "ib-state");
    rig_close(&r);
}

static void ib_rate(void **state)
{
    rig r;
    err e = {.code = OK};
    doctor_machine *machine = NULL;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_write(&r, "/machine.yaml", "name: cluster\nthresholds: {ib_gbits: 400}\n");
    char *path = rig_full(&r, "/machine.yaml");
    rig_must(doctor_machine_open(path, &machine, &e), &e);
    r.context.machine = machine;
    rig_expect_passed(&r, "ib-rate");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    rig_expect_found(&r, "ib-rate", "mlx5_0:1 runs at 200 Gb/s; 400 Gb/s are expected");
    r.context.machine = NULL; // without a machine file no rate is expected
    rig_expect_passed(&r, "ib-rate");
    doctor_machine_close(machine);
    free(path);
    rig_close(&r);
}

static void ib_rates_differ(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_passed(&r, "ib-rates-differ");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/ports/1/rate", "56 Gb/sec (4X FDR)\n");
    rig_expect_found(&r, "ib-rates-differ", "mlx5_0:1 runs at 56 Gb/s, and mlx5_1:1 at 400 Gb/s");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n"); // for storage
    rig_expect_passed(&r, "ib-rates-differ");
    rig_remove(&r, "/sys/class/infiniband/mlx5_0");
    rig_expect_skipped(&r, "ib-rates-differ", "there are no two InfiniBand or RoCE ports");
    rig_close(&r);
}

static void ib_errors(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_passed(&r, "ib-errors");
    rig_write(&r, "/sys/class/infiniband/mlx5_1/ports/1/counters/link_downed", "17\n");
    rig_expect_found(&r, "ib-errors", "mlx5_1:1 has counted 17 times link_downed");
    rig_write(&r, "/sys/class/infiniband/mlx5_1/ports/1/counters/link_downed", "5\n");
    rig_write(&r, "/sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error", "65535\n");
    rig_expect_found(&r, "ib-errors", "mlx5_1:1 has counted 65535 times symbol_error");
    rig_close(&r);
}

static void ib_hca_rule(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_skipped(&r, "ib-hca-rule", "NCCL_IB_HCA is not set");
    rig_variable(&r, "NCCL_IB_HCA=^mlx5_0");
    rig_expect_passed(&r, "ib-hca-rule");
    rig_variable(&r, "NCCL_IB_HCA==mlx5_1:1");
    rig_expect_passed(&r, "ib-hca-rule");
    rig_variable(&r, "NCCL_IB_HCA==mlx5_1:2,mlx4");
    rig_expect_found(&r, "ib-hca-rule",
                     "NCCL_IB_HCA==mlx5_1:2,mlx4 matches no active port; there are mlx5_0:1, "
                     "mlx5_1:1");
    rig_close(&r);
}

static void ib_disabled(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_passed(&r, "ib-disabled");
    rig_variable(&r, "NCCL_IB_DISABLE=1");
    rig_expect_found(&r, "ib-disabled",
                     "NCCL_IB_DISABLE is 1, although the port mlx5_0:1 is active");
    rig_remove(&r, "/sys/class/infiniband");
    rig_expect_skipped(&r, "ib-disabled", "there is no active InfiniBand or RoCE port");
    rig_close(&r);
}

static void ib_devices(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "InfiniBand\n");
    rig_expect_passed(&r, "ib-devices");
    rig_remove(&r, "/dev/infiniband");
    rig_expect_found(&r, "ib-devices",
                     "this machine has the device mlx5_0, but /dev/infiniband has no uverbs file");
    rig_close(&r);
}

static void roce_mtu(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "Ethernet\n");
    rig_expect_passed(&r, "roce-mtu");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/device/net/eth0/mtu", "1500\n");
    rig_expect_found(&r, "roce-mtu",
                     "eth0 has an MTU of 1500, so that the port mlx5_0:1 sends packets of at most "
                     "1500 bytes; 4200 allow those of 4096");
    rig_close(&r);
    open_ports(&r, "InfiniBand\n");
    rig_expect_skipped(&r, "roce-mtu", "there is no active RoCE port");
    rig_close(&r);
}

static void roce_gid(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "Ethernet\n");
    rig_expect_passed(&r, "roce-gid");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/ports/1/gids/1",
              "0000:0000:0000:0000:0000:0000:0000:0000\n");
    rig_expect_found(&r, "roce-gid", "mlx5_0:1 has no address (GID) of type RoCE v2");
    rig_close(&r);
}

static void gid_index(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "Ethernet\n");
    rig_remove(&r, "/sys/class/infiniband/mlx5_1");
    rig_expect_passed(&r, "gid-index");
    rig_variable(&r, "NCCL_IB_GID_INDEX=1");
    rig_expect_passed(&r, "gid-index");
    rig_variable(&r, "NCCL_IB_GID_INDEX=0");
    rig_expect_found(&r, "gid-index",
                     "NCCL_IB_GID_INDEX=0 is IB/RoCE v1 on mlx5_0:1; RoCE v2 is expected");
    rig_variable(&r, "NCCL_IB_GID_INDEX=3");
    rig_expect_found(&r, "gid-index",
                     "NCCL_IB_GID_INDEX=3 is an empty entry on mlx5_0:1; RoCE v2 is expected");
    rig_close(&r);
}

static void roce_loss(void **state)
{
    rig r;
    (void)state;
    open_ports(&r, "Ethernet\n");
    rig_expect_passed(&r, "roce-loss");
    rig_write(&r, "/sys/class/infiniband/mlx5_1/ports/1/hw_counters/out_of_sequence", "90210\n");
    rig_expect_found(&r, "roce-loss", "mlx5_1:1 has received 90210 packets out of sequence");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ib_state),    cmocka_unit_test(ib_cable),
        cmocka_unit_test(ib_rate),     cmocka_unit_test(ib_rates_differ),
        cmocka_unit_test(ib_errors),   cmocka_unit_test(ib_hca_rule),
        cmocka_unit_test(ib_disabled), cmocka_unit_test(ib_devices),
        cmocka_unit_test(roce_mtu),    cmocka_unit_test(roce_gid),
        cmocka_unit_test(gid_index),   cmocka_unit_test(roce_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
