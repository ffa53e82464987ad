// rows.c -- the table of what can be wrong between hosts. compare.c finds it; the rows have no probe.
#include "doctor/hosts/compare.h"

static const doctor_check ROWS[HOSTS_ROWS] = {
    [HOSTS_MISSING] = {.code = "host-missing",
                       .severity = DOCTOR_ERROR,
                       .title = "all hosts come",
                       .needs = "the TCP store of rank 0's host",
                       .issue = "{where} did not come within {seconds} s",
                       .why = "A run waits for this host until its time limit, and ends.",
                       .remedy = {"See whether the program was started there: its own message says "
                                  "whether rank 0's host answered.",
                                  "Open the port of the store in the firewall of rank 0's host."},
                       .reference = "docs/launching.md",
                       .recipe = {153, 154}},
    [HOSTS_GONE] = {.code = "host-gone",
                    .severity = DOCTOR_ERROR,
                    .title = "all hosts report",
                    .needs = "the TCP store of rank 0's host",
                    .issue = "{where} came, and ended or fell silent before it had reported",
                    .why = "A run ends when a host is lost.",
                    .remedy = {"Read what the program printed there, and the kernel's log.",
                               "$ trireme doctor"},
                    .reference = "docs/launching.md",
                    .recipe = {154, 158}},
    [HOSTS_DIFFER] = {.code = "hosts-differ",
                      .severity = DOCTOR_WARNING,
                      .title = "hosts have the same versions and settings",
                      .needs = "the facts of all checks",
                      .issue =
                          "{hosts} {have} {fact} {value}; {others} of {count} hosts have {most}",
                      .why =
                          "A difference in versions makes ranks fail at their first collective, or "
                          "compute different bits. A difference in limits makes one host fail "
                          "first.",
                      .remedy = {"Install and set the same on all hosts."},
                      .reference = "docs/launching.md",
                      .recipe = {174}},
    [HOSTS_SLOWER] = {.code = "host-slower",
                      .severity = DOCTOR_WARNING,
                      .title = "no host is slower than the others",
                      .needs = "the measured rates of all checks",
                      .issue =
                          "{where} is {percent} % slower: {key} is {value} {unit}; the median of "
                          "{count} hosts is {median} {unit}",
                      .why = "Ranks wait for the slowest one in each step, so this host slows the "
                             "whole run down by as much.",
                      .remedy = {"Look for clocks, temperature and other programs on this host.",
                                 "$ trireme doctor --active"},
                      .reference = "docs/launching.md",
                      .recipe = {161, 163, 174}},
    [HOSTS_UNREACHABLE] = {.code = "pair-unreachable",
                           .severity = DOCTOR_ERROR,
                           .title = "all hosts can connect to each other",
                           .needs = "TCP connections of all pairs, --active",
                           .issue = "{from} and {to} cannot connect to each other: {reason}",
                           .why =
                               "Ranks of the two hosts cannot exchange messages, so the run hangs "
                               "or ends at its first collective.",
                           .remedy = {"Open free ports between the hosts in their firewalls.",
                                      "$ export NCCL_SOCKET_IFNAME=eth0"},
                           .reference = "docs/launching.md",
                           .recipe = {154, 156}},
    [HOSTS_ONE_WAY] = {.code = "pair-one-way",
                       .severity = DOCTOR_ERROR,
                       .title = "both hosts of a pair can open a connection",
                       .needs = "TCP connections of all pairs, --active",
                       .issue =
                           "{from} cannot connect to {to}, which can connect to {from}: {reason}",
                       .why =
                           "Ranks open connections in both directions, so the run hangs or ends at "
                           "its first collective.",
                       .remedy = {"Open free ports in the firewall of {to}, or on the way to it."},
                       .reference = "docs/launching.md",
                       .recipe = {154}},
    [HOSTS_STALL] =
        {.code = "pair-stall",
         .severity = DOCTOR_ERROR,
         .title = "large packets arrive between all hosts",
         .needs = "a stream of 100 ms between all pairs, --active",
         .issue = "from {from} to {to} small messages arrive, and large packets do not",
         .why = "The MTU is smaller on the way than at the ends, and the message that says "
                "so is lost. A run starts, and hangs at its first large message.",
         .remedy = {"Set one MTU on all interfaces and switches between the two.",
                    "$ ping -M do -s 8972 {to}", "$ sudo sysctl -w net.ipv4.tcp_mtu_probing=1"},
         .reference = "the kernel's Documentation/networking/ip-sysctl, tcp_mtu_probing",
         .recipe = {154}},
    [HOSTS_LOST] = {.code = "pair-lost",
                    .severity = DOCTOR_ERROR,
                    .title = "connections between hosts stay",
                    .needs = "TCP connections of all pairs, --active",
                    .issue = "{from} could connect to {to}, and then lost the connection: {reason}",
                    .why = "A run ends when a connection between its ranks is lost.",
                    .remedy = {"Look for lost packets, and for a firewall that ends connections."},
                    .reference = "docs/launching.md",
                    .recipe = {154}},
    [HOSTS_SLOW] =
        {.code = "pair-slow",
         .severity = DOCTOR_WARNING,
         .title = "no pair of hosts is much slower than the others",
         .needs = "a stream of 100 ms between all pairs, --active",
         .issue = "between {from} and {to}: {gbits} Gb/s; the median of pairs is {median} "
                  "Gb/s",
         .why = "A ring passes all links, and is as slow as the slowest one.",
         .remedy = {"Look at the interfaces, cables and the switch between the two hosts.",
                    "$ trireme bench link --serve 0"},
         .reference = "docs/benchmarks.md",
         .recipe = {154, 165, 181}},
    [HOSTS_LATENCY] =
        {.code = "pair-latency",
         .severity = DOCTOR_WARNING,
         .title = "no pair of hosts has a much higher latency than the others",
         .needs = "round trips of one byte between all pairs, --active",
         .issue = "between {from} and {to} a message takes {us} us; the median of pairs "
                  "is {median} us",
         .why = "Small collectives, and each step of a large one, take as long as the "
                "slowest pair.",
         .remedy = {"Look for a longer way through the network between the two hosts.",
                    "Place the hosts in one rack, or in one placement group."},
         .reference = "docs/benchmarks.md",
         .recipe = {154, 165, 181}},
    [HOSTS_UNMEASURED] = {.code = "pair-unmeasured",
                          .severity = DOCTOR_NOTE,
                          .title = "all pairs of hosts were measured",
                          .needs = "TCP connections of all pairs, --active",
                          .issue = "{from} and {to} were not measured: {reason}",
                          .why = "Nothing is known of this pair.",
                          .remedy = {"Repair the pairs that were found, and start again."},
                          .reference = "docs/launching.md",
                          .recipe = {154}},
    [HOSTS_CLOCK] =
        {.code = "clock-offset",
         .severity = DOCTOR_WARNING,
         .title = "the clocks of all hosts agree",
         .needs = "the clock of each host beside that of rank 0's",
         .issue = "the clock of {where} is {seconds} s {way} of that of {first}",
         .why = "Lines of logs cannot be compared between hosts, files seem to be from the "
                "future, and certificates may be refused. Training itself does not mind.",
         .remedy = {"$ timedatectl set-ntp true", "$ chronyc tracking"},
         .reference = "timedatectl(1)",
         .recipe = {153}},
    [HOSTS_LOOKUP] = {.code = "host-lookup",
                      .severity = DOCTOR_WARNING,
                      .title = "the name of each host is known on all hosts",
                      .needs = "the C library's name lookup on each host, --active",
                      .issue = "the name {where} {problem} on {hosts}",
                      .why = "Programs that tell others their own name, as Gloo and MPI do, cannot "
                             "connect.",
                      .remedy = {"Add {where} to the name server, or to /etc/hosts of these hosts.",
                                 "Name hosts by their addresses."},
                      .reference = "hosts(5)",
                      .recipe = {154}},
};

const doctor_table DOCTOR_HOSTS = {
    .subject = "Between hosts",
    .row = ROWS,
    .count = HOSTS_ROWS,
};
