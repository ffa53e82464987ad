// probes.h -- the probes of this room, whose rows stand in *_rows.c.
#ifndef TRIREME_DOCTOR_NETWORK_PROBES_H
#define TRIREME_DOCTOR_NETWORK_PROBES_H

#include "doctor/network/interfaces.h"

doctor_probe doctor_probe_interface_taken, doctor_probe_interface_rule,
    doctor_probe_interface_carrier, doctor_probe_interface_speed, doctor_probe_interface_duplex,
    doctor_probe_interface_errors, doctor_probe_interface_drops, doctor_probe_interface_mtu,
    doctor_probe_mtu_mixed, doctor_probe_rp_filter; // interface_checks.c
doctor_probe doctor_probe_host_name_loopback, doctor_probe_host_name_unknown,
    doctor_probe_peer_name, doctor_probe_peer_loopback, doctor_probe_peer_ipv6,
    doctor_probe_firewall, doctor_probe_conntrack_full, doctor_probe_tcp_buffers,
    doctor_probe_tcp_window_scaling, doctor_probe_tcp_sack; // name_checks.c and tcp_checks.c
doctor_probe doctor_probe_ib_state, doctor_probe_ib_cable, doctor_probe_ib_rate,
    doctor_probe_ib_rates_differ, doctor_probe_ib_errors, doctor_probe_ib_hca_rule,
    doctor_probe_ib_disabled, doctor_probe_ib_devices, doctor_probe_roce_mtu, doctor_probe_roce_gid,
    doctor_probe_gid_index, doctor_probe_roce_loss; // rdma_checks.c

#endif
