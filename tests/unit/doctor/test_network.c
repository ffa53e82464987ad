// test_network.c -- the checks of interfaces, host names, the firewall and TCP: each finds its planted fault, and is silent
// on a healthy machine.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor_rig.h"

static void add_interface(rig *r, const char *name, const char *index, const char *flags)
{
    char path[128];
    const char *const files[][2] = {{"ifindex", index},
                                    {"flags", flags},
                                    {"type", "1\n"},
                                    {"carrier", "1\n"},
                                    {"mtu", "9000\n"},
                                    {"speed", "10000\n"},
                                    {"duplex", "full\n"},
                                    {"device/uevent", "DRIVER=e1000e\n"},
                                    {"statistics/rx_packets", "5000000\n"},
                                    {"statistics/tx_packets", "5000000\n"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, files[i][0]);
        rig_write(r, path, files[i][1]);
    }
}

// lo, and the card eth0 with 10.0.0.1/8.
static void open_network(rig *r)
{
    rig_open(r);
    add_interface(r, "lo", "1\n", "0x9\n");
    rig_write(r, "/sys/class/net/lo/type", "772\n");
    rig_remove(r, "/sys/class/net/lo/device");
    add_interface(r, "eth0", "2\n", "0x1003\n");
    rig_write(r, "/proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
              "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
              "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n");
    rig_write(r, "/proc/sys/net/ipv4/conf/all/rp_filter", "0\n");
}

// A second card in the subnet of the first one.
static void add_second(rig *r)
{
    add_interface(r, "eth1", "3\n", "0x1003\n");
    rig_write(r, "/proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
              "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
              "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n");
}

static void interface_taken(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_passed(&r, "interface-taken");
    // docker0 was made before the driver of the card was loaded.
    add_interface(&r, "docker0", "1\n", "0x1003\n");
    rig_write(&r, "/sys/class/net/lo/ifindex", "0\n");
    rig_write(&r, "/proc/net/route",
              "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
              "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n");
    rig_expect_found(&r, "interface-taken",
                     "docker0 would be taken for messages between hosts, because of its place "
                     "before the others in the kernel's list; it is a bridge of containers or "
                     "virtual machines, and eth0 is a network card");
    rig_variable(&r, "NCCL_SOCKET_IFNAME=eth");
    rig_expect_passed(&r, "interface-taken");
    rig_variable(&r, "NCCL_SOCKET_IFNAME=lo");
    rig_expect_found(
        &r, "interface-taken",
        "lo would be taken for messages between hosts, because of "
        "NCCL_SOCKET_IFNAME; it is the loopback interface, and eth0 is a network card");
    rig_close(&r);
}

static void interface_rule(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_skipped(&r, "interface-rule", "no variable names an interface");
    rig_variable(&r, "NCCL_SOCKET_IFNAME==eth0");
    rig_expect_passed(&r, "interface-rule");
    rig_variable(&r, "GLOO_SOCKET_IFNAME=ib0");
    rig_expect_found(&r, "interface-rule",
                     "GLOO_SOCKET_IFNAME=ib0 matches no interface that is up and has an address; "
                     "valid are lo, eth0");
    rig_variable(&r, "GLOO_SOCKET_IFNAME=");
    rig_write(&r, "/sys/class/net/eth0/flags", "0x1002\n");
    rig_expect_found(&r, "interface-rule",
                     "NCCL_SOCKET_IFNAME==eth0 matches no interface that is up and has an address; "
                     "valid are lo");
    rig_close(&r);
}

static void interface_carrier(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_passed(&r, "interface-carrier");
    rig_write(&r, "/sys/class/net/eth0/carrier", "0\n");
    rig_expect_found(&r, "interface-carrier", "eth0 is up and has an address, but no carrier");
    rig_write(&r, "/proc/net/route", "");
    rig_expect_skipped(&r, "interface-carrier", "no interface leads to other hosts");
    rig_remove(&r, "/sys/class/net");
    rig_expect_skipped(&r, "interface-carrier", "/sys/class/net has no interface");
    rig_close(&r);
}

static void interface_speed(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_passed(&r, "interface-speed");
    rig_write(&r, "/sys/class/net/eth0/speed", "-1\n"); // a virtual card does not know it
    rig_expect_passed(&r, "interface-speed");
    rig_write(&r, "/sys/class/net/eth0/speed", "100\n");
    rig_expect_found(&r, "interface-speed",
                     "eth0 runs at 100 Mb/s; 1000 Mb/s or more are expected");
    rig_close(&r);
}

static void interface_duplex(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_passed(&r, "interface-duplex");
    rig_write(&r, "/sys/class/net/eth0/duplex", "half\n");
    rig_expect_found(&r, "interface-duplex", "eth0 runs at half duplex");
    rig_close(&r);
}

static void interface_errors(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/sys/class/net/eth0/statistics/rx_errors", "90\n"); // few
    rig_expect_passed(&r, "interface-errors");
    rig_write(&r, "/sys/class/net/eth0/statistics/rx_errors", "4000\n");
    rig_write(&r, "/sys/class/net/eth0/statistics/tx_errors", "5000\n");
    rig_expect_found(&r, "interface-errors",
                     "eth0 has counted 9000 errors in 10000000 packets, most of them tx_errors");
    rig_close(&r);
}

static void interface_drops(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/sys/class/net/eth0/statistics/rx_dropped", "900000\n"); // unknown protocols
    rig_expect_passed(&r, "interface-drops");
    rig_write(&r, "/sys/class/net/eth0/statistics/rx_missed_errors", "20000\n");
    rig_expect_found(&r, "interface-drops",
                     "eth0 has lost 20000 of 10000000 packets for lack of room, most of them "
                     "rx_missed_errors");
    rig_close(&r);
}

static void interface_mtu(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/sys/class/net/eth0/mtu", "1500\n"); // enough for 10 Gb/s
    rig_expect_passed(&r, "interface-mtu");
    rig_write(&r, "/sys/class/net/eth0/speed", "100000\n");
    rig_expect_found(&r, "interface-mtu", "eth0 has 100 Gb/s and an MTU of 1500; 9000 is usual");
    rig_write(&r, "/sys/class/net/eth0/mtu", "9000\n");
    rig_expect_passed(&r, "interface-mtu");
    rig_close(&r);
}

static void mtu_mixed(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    add_second(&r);
    rig_expect_passed(&r, "mtu-mixed");
    rig_write(&r, "/sys/class/net/eth1/mtu", "1500\n");
    rig_expect_found(&r, "mtu-mixed",
                     "eth0 has an MTU of 9000, and eth1 in the same subnet has 1500");
    rig_close(&r);
}

static void rp_filter(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_skipped(&r, "rp-filter", "no two interfaces are in one subnet");
    add_second(&r);
    rig_expect_passed(&r, "rp-filter");
    rig_write(&r, "/proc/sys/net/ipv4/conf/eth1/rp_filter", "1\n");
    rig_expect_found(&r, "rp-filter",
                     "eth0 and eth1 are in one subnet, and rp_filter is 1 (strict)");
    rig_write(&r, "/proc/sys/net/ipv4/conf/all/rp_filter", "2\n");
    rig_expect_passed(&r, "rp-filter");
    rig_close(&r);
}

// ---- Names

static void host_name_loopback(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_passed(&r, "host-name-loopback");
    rig_write(&r, "/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 healthy.example Healthy # own\n");
    rig_expect_found_as(&r, "host-name-loopback", DOCTOR_NOTE,
                        "/etc/hosts gives healthy, the name of this host, the address 127.0.1.1");
    r.context.peer = "node0";
    rig_expect_found(&r, "host-name-loopback",
                     "/etc/hosts gives healthy, the name of this host, the address 127.0.1.1");
    rig_write(&r, "/etc/hosts", "# 127.0.1.1 healthy\n10.0.0.1 healthy\n");
    rig_expect_passed(&r, "host-name-loopback");
    rig_close(&r);
}

static void host_name_unknown(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_passed(&r, "host-name-unknown");
    rig_write(&r, "/etc/hosts", "127.0.0.1 localhost\n");
    rig_expect_found(&r, "host-name-unknown",
                     "nothing gives healthy, the name of this host, an address");
    rig_write(&r, "/etc/nsswitch.conf", "hosts: files myhostname dns\n");
    rig_expect_passed(&r, "host-name-unknown");
    rig_remove(&r, "/etc/nsswitch.conf");
    rig_write(&r, "/etc/resolv.conf", "nameserver 10.0.0.53\n");
    rig_expect_skipped(&r, "host-name-unknown", "only a name server knows the name healthy");
    rig_close(&r);
}

static void peer_name(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_skipped(&r, "peer-name", "no host is named at which ranks meet");
    rig_variable(&r, "MASTER_ADDR=10.0.0.1");
    rig_expect_skipped(&r, "peer-name", "MASTER_ADDR is an address");
    rig_variable(&r, "MASTER_ADDR=healthy");
    rig_expect_passed(&r, "peer-name");
    rig_variable(&r, "MASTER_ADDR=nod0");
    rig_expect_found(&r, "peer-name",
                     "MASTER_ADDR is nod0, and nothing gives this name an address");
    rig_close(&r);
}

static void peer_loopback(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_variable(&r, "MASTER_ADDR=localhost");
    rig_variable(&r, "WORLD_SIZE=16");
    rig_variable(&r, "LOCAL_WORLD_SIZE=8");
    rig_variable(&r, "GROUP_RANK=0");
    rig_expect_skipped(&r, "peer-loopback",
                       "this host is not one of several that meet on another one");
    rig_variable(&r, "GROUP_RANK=1");
    rig_expect_found(&r, "peer-loopback",
                     "MASTER_ADDR is localhost, which stands for this host alone, but ranks meet "
                     "on node 0");
    rig_variable(&r, "MASTER_ADDR=10.0.0.7");
    rig_expect_passed(&r, "peer-loopback");
    rig_close(&r);
}

static void peer_ipv6(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n");
    rig_variable(&r, "MASTER_ADDR=fd00::7");
    rig_expect_passed(&r, "peer-ipv6");
    rig_write(&r, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1\n");
    rig_expect_found(&r, "peer-ipv6",
                     "MASTER_ADDR is fd00::7 (fd00::7), and IPv6 is switched off on this host");
    rig_variable(&r, "MASTER_ADDR=healthy");
    rig_expect_skipped(&r, "peer-ipv6", "healthy has no IPv6 address in /etc/hosts");
    rig_close(&r);
}

// ---- Firewall and TCP

static void firewall(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/proc/modules", "ext4 1000 1 - Live 0x0\n");
    rig_expect_passed(&r, "firewall");
    rig_write(&r, "/proc/modules", "ext4 1000 1 - Live 0x0\nnf_tables 300000 8 - Live 0x0\n");
    rig_expect_found(&r, "firewall",
                     "a firewall is loaded (nf_tables); only root can read its rules");
    rig_write(&r, "/proc/net/ip_tables_names", "filter\nnat\n");
    rig_expect_found(&r, "firewall",
                     "a firewall is loaded (the table filter of iptables); only root can read its "
                     "rules");
    rig_close(&r);
}

static void conntrack_full(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_expect_skipped(&r, "conntrack-full", "the kernel does not track connections");
    rig_write(&r, "/proc/sys/net/netfilter/nf_conntrack_max", "65536\n");
    rig_write(&r, "/proc/sys/net/netfilter/nf_conntrack_count", "120\n");
    rig_expect_passed(&r, "conntrack-full");
    rig_write(&r, "/proc/sys/net/netfilter/nf_conntrack_count", "65530\n");
    rig_expect_found(&r, "conntrack-full",
                     "the kernel tracks 65530 connections, and at most 65536");
    rig_close(&r);
}

static void tcp_buffers(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    rig_write(&r, "/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
    rig_expect_passed(&r, "tcp-buffers");
    rig_write(&r, "/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t262144\n");
    rig_expect_found(&r, "tcp-buffers",
                     "tcp_wmem allows buffers of 256.00 KiB, which do not fill a link of 10 Gb/s");
    rig_write(&r, "/sys/class/net/eth0/speed", "1000\n");
    rig_write(&r, "/sys/class/net/lo/speed", "-1\n");
    rig_expect_skipped(&r, "tcp-buffers", "no interface has 10 Gb/s");
    rig_close(&r);
}

static void tcp_window_scaling(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/proc/sys/net/ipv4/tcp_window_scaling", "1\n");
    rig_expect_passed(&r, "tcp-window-scaling");
    rig_write(&r, "/proc/sys/net/ipv4/tcp_window_scaling", "0\n");
    rig_expect_found(&r, "tcp-window-scaling", "tcp_window_scaling is 0");
    rig_close(&r);
}

static void tcp_sack(void **state)
{
    rig r;
    (void)state;
    open_network(&r);
    rig_write(&r, "/proc/sys/net/ipv4/tcp_sack", "1\n");
    rig_expect_passed(&r, "tcp-sack");
    rig_write(&r, "/proc/sys/net/ipv4/tcp_sack", "0\n");
    rig_expect_found(&r, "tcp-sack", "tcp_sack is 0");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interface_taken),    cmocka_unit_test(interface_rule),
        cmocka_unit_test(interface_carrier),  cmocka_unit_test(interface_speed),
        cmocka_unit_test(interface_duplex),   cmocka_unit_test(interface_errors),
        cmocka_unit_test(interface_drops),    cmocka_unit_test(interface_mtu),
        cmocka_unit_test(mtu_mixed),          cmocka_unit_test(rp_filter),
        cmocka_unit_test(host_name_loopback), cmocka_unit_test(host_name_unknown),
        cmocka_unit_test(peer_name),          cmocka_unit_test(peer_loopback),
        cmocka_unit_test(peer_ipv6),          cmocka_unit_test(firewall),
        cmocka_unit_test(conntrack_full),     cmocka_unit_test(tcp_buffers),
        cmocka_unit_test(tcp_window_scaling), cmocka_unit_test(tcp_sack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
