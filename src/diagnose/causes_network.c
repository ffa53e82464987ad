// causes_network.c -- causes of failed runs: NCCL, connections and names. See cause.h.
#include "diagnose/tables.h"

static const diagnose_cause ROWS[] = {
    {
        .code = "nccl-no-interface",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"o socket interface found", NULL},
                    {"o interface found in the same subnet", NULL},
                    {"neither AF_INET", NULL},
                    {"nable to find address for", "(?i)unable to find (?:address|interface) for"},
                    {"ailed to find interface", NULL},
                    {"NCCL_SOCKET_IFNAME", "(?i)no .*NCCL_SOCKET_IFNAME|NCCL_SOCKET_IFNAME.*not "
                                           "found"},
                    {"o such device", "(?i)(?:GLOO_SOCKET_IFNAME|interface|eth\\d|ib\\d).*No such "
                                      "device"}},
        .sentence = "the network interface that was asked for does not exist, or none has an "
                    "address",
        .why = "NCCL_SOCKET_IFNAME (or GLOO_SOCKET_IFNAME) names no interface of this host, or the "
               "container has none.",
        .remedy = {"$ ip -brief address", "Unset NCCL_SOCKET_IFNAME, or set it to an interface "
                                          "that every host has"},
        .check = {"interface-taken", "interface-rule"},
        .reference = "docs/troubleshooting.md#is-the-connection-slow-or-wrong",
    },
    {
        .code = "nccl-duplicate-gpu",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"uplicate GPU detected",
                     "uplicate GPU detected ?: ?rank (?<rank>\\d+) and rank (?<other>\\d+) both on "
                     "CUDA device (?<gpu>\\w+)"},
                    {"ultiple ranks on the same GPU", NULL}},
        .sentence = "two ranks use one GPU[: rank {rank} and rank {other} are on device {gpu}]",
        .why = "The program does not choose its GPU by LOCAL_RANK, more ranks than GPUs were "
               "started, or CUDA_VISIBLE_DEVICES shows all ranks the same one.",
        .remedy = {"Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first "
                   "collective",
                   "Start as many ranks on a host as it has visible GPUs"},
        .check = {"gpu-visible"},
    },
    {
        .code = "ib-event",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"Got async event", "Got async event ?:? ?(?<event>.*)"},
                    {"async fatal event", "async fatal event on (?<event>.*)"},
                    {"IBV_EVENT_", "(?<event>IBV_EVENT_(?:PORT_ERR|DEVICE_FATAL|QP_FATAL))"}},
        .sentence = "an InfiniBand or RoCE card reports a fault of its port or queue[: {event}]",
        .why = "A port error is a link that went down, from a cable, a switch or a setting of the "
               "port; a queue error is a card or a driver that does not do what NCCL asks.",
        .remedy = {"$ ibstatus; ibqueryerrors; dmesg -T | grep mlx5",
                   "Check the cable and the port at the switch; update the firmware of the card",
                   "$ NCCL_IB_DISABLE=1 ... # shows whether the network card is at fault"},
        .check = {"ib-state", "ib-rate"},
    },
    {
        .code = "ib-timeout",
        .weight = DIAGNOSE_GENERAL,
        .pattern = {{"NET/IB", "Got completion (?:from peer (?<peer>[\\w.:]+)\\S* )?with "
                               "(?:status=|error )12\\b.*?vendor err (?<vendor>\\d+)"},
                    {"RETRY_EXC", NULL},
                    {"ransport retry", "(?i)transport retry (?:count|counter) exceeded"}},
        .sentence = "an InfiniBand or RoCE card got no answer from its peer[ {peer}]",
        .why = "The two cards cannot reach each other (another subnet or GID, a link that is down, "
               "RoCE without priority flow control), or the peer's process has ended.",
        .remedy = {"Look first at the logs of the peer: if its process ended, that is the cause",
                   "$ ibstatus; show_gids; ib_write_bw -d DEVICE PEER",
                   "For RoCE set NCCL_IB_GID_INDEX (often 3); NCCL_IB_TIMEOUT=22 where the "
                   "network is busy",
                   "$ NCCL_IB_DISABLE=1 ... # shows whether the network card is at fault"},
        .check = {"ib-state", "roce-gid", "ib-rate"},
        .reference = "NVIDIA, NCCL user guide, troubleshooting",
    },
    {
        .code = "ib-error",
        .weight = DIAGNOSE_GENERAL,
        .pattern = {{"NET/IB", "Got completion (?:from peer (?<peer>[\\w.:]+)\\S* )?with "
                               "(?:status=|error )(?<status>(?!12\\b|0\\b)\\d+)"},
                    {"ocal work queue", NULL},
                    {"ibv_modify_qp", "ibv_modify_qp failed.*|modify_qp.*(?:rror|ailed)"}},
        .sentence = "an InfiniBand or RoCE card reports an error[ of peer {peer}][ (status "
                    "{status})]",
        .why = "Status 4 and 5 follow where the process at the other end, or memory that it "
               "registered, is gone; others point to the card, its GID or its firmware.",
        .remedy = {"Look first at the logs of the other hosts for a rank that ended",
                   "$ ibstatus; dmesg -T | grep mlx5", "Set NCCL_IB_GID_INDEX for RoCE"},
        .check = {"ib-state", "roce-gid"},
    },
    {
        .code = "collective-mismatch",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"etected mismatch between collectives",
                     "etected mismatch between collectives on ranks\\. Rank (?<rank>\\d+) is "
                     "running (?:inconsistent )?collective: [^)]*?OpType=(?<call>\\w+)"
                     "(?:.*but Rank (?<other>\\d+) is running)?"},
                    {"ismatched collective detected", "at and around rank (?<rank>\\d+)"},
                    {"esync", "\\bdesync (?:in operation|debug)|collective desync"},
                    {"LLREDUCE", "(?i)ranks? .* mismatched|mismatched (?:data type|tensor shape)"},
                    {"ismatched", "Mismatched (?:data types|allreduce|allgather|broadcast|"
                                  "ALLREDUCE)"},
                    {"equested tensor name", "submitted .* tensors to be reduced, gathered"}},
        .sentence = "ranks called different collectives[: rank {rank} called {call}][ while rank "
                    "{other} called another]",
        .why = "The program takes different branches on different ranks: an if on the rank, data "
               "of unequal length, a loop that ends earlier.",
        .remedy = {"$ TORCH_DISTRIBUTED_DEBUG=DETAIL ... # names the call and its shapes",
                   "Let all ranks take the same number of batches (drop_last, join)"},
        .check = {0},
        .reference = "docs/troubleshooting.md#ranks-call-different-collectives",
    },
    {
        .code = "nccl-version",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"ismatched NCCL version detected", NULL},
                    {"NCCL version", "(?i)mismatch.*NCCL version|NCCL version .* (?:does not "
                                     "match|mismatch)"}},
        .sentence = "ranks loaded different versions of NCCL",
        .remedy = {"Install the same PyTorch on every host, and unset LD_PRELOAD and "
                   "LD_LIBRARY_PATH of other NCCLs"},
        .check = {"gpu-libraries"},
    },
    {
        .code = "port-in-use",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"ailed to listen on any local network address",
                     "listen on any local network address(?:.*?(?:port: |\\]:)(?<port>\\d+))?"},
                    {"EADDRINUSE", NULL},
                    {"ddress already in use",
                     "^(?!.*\\[W ?\\d* ?.*socket\\.cpp)(?!.*\\bW\\d+ ).*ddress already in use"},
                    {"ort is already allocated", NULL}},
        .sentence = "a port that the run needs is in use[: {port}]",
        .why = "Another run on this host has the same port (29500 by default), an earlier one has "
               "not ended, or each rank of the host started a store.",
        .remedy = {"$ ss -ltnp | grep 29500",
                   "Choose another port: --master-port, MASTER_PORT, or --rdzv-endpoint "
                   "localhost:0"},
        .check = {"port-in-use", "orphaned-ranks"},
    },
    {
        .code = "name-resolution",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"ame or service not known",
                     "(?:hostname |addresses of \\[?\\(?|to \\[?)?(?:(?<=of \\()(?<name>[\\w.-]+))?"
                     ".*ame or service not known"},
                    {"emporary failure in name resolution", NULL},
                    {"ould not resolve host", "resolve host(?:name)?:? (?<name>[\\w.-]+)"},
                    {"gaierror", NULL},
                    {"No address associated with hostname", NULL},
                    {"UnknownHostException", NULL}},
        .sentence = "the name of a host[, {name},] could not be resolved",
        .why = "MASTER_ADDR or the hostfile has a name that this host does not know, or its own "
               "name is missing in /etc/hosts.",
        .remedy = {"$ getent hosts NAME", "Use the address instead of the name, or add the name "
                                          "to /etc/hosts of every host"},
        .check = {"peer-name", "host-name-unknown"},
    },
    {
        .code = "connection-failed",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"ailed to execute operation Connect", "^(?!.*retcode 6)"},
                    {"socketStartConnect", "Connect to (?<peer>[\\w.:\\[\\]]+?)(?:<\\d+>)? "
                                           "(?:failed|returned) ?:? ?(?<error>.*)"},
                    {"onnection refused", NULL},
                    {"o route to host", NULL},
                    {"etwork is unreachable", "^(?!.*huggingface).*etwork is unreachable"},
                    {"connect to all addresses", NULL},
                    {"onnectFull failed", "Gloo connectFull(?:Mesh)? failed"},
                    {"nable to complete a TCP connection", NULL},
                    {"ORTE was unable to reliably start", NULL}},
        .sentence = "a host could not be reached[: {peer}][ ({error})]",
        .why = "A firewall closes the port, an interface was chosen that the other host cannot "
               "reach (docker0, a management network), or nothing listens there any more.",
        .remedy = {"$ nc -vz HOST PORT # from the host that failed",
                   "Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the network that all hosts "
                   "share",
                   "Open the ports between the hosts of the job"},
        .check = {"interface-taken", "interface-rule", "firewall"},
        .reference = "docs/troubleshooting.md#is-the-connection-slow-or-wrong",
    },
    {
        .code = "nccl-cuda-error",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"nhandled cuda error", NULL},
                    {"nhandled CUDA error", NULL},
                    {"ncclUnhandledCudaError", NULL},
                    {"NCCL WARN Cuda failure", "NCCL WARN Cuda failure '?(?<error>[^']*)"}},
        .sentence = "a call of CUDA inside NCCL failed[: {error}]",
        .remedy = {"$ NCCL_DEBUG=WARN ... # prints the call that failed",
                   "Look for a GPU without memory, and for a driver older than NCCL's CUDA"},
        .check = {"gpu-driver", "gpu-memory-taken", "gpu-p2p"},
    },
    {
        .code = "nccl-system-error",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"nhandled system error", NULL}, {"ncclSystemError", NULL}},
        .sentence = "a call of the system inside NCCL failed",
        .why = "Most often /dev/shm is too small in a container, or no interface or connection is "
               "there.",
        .remedy = {"$ NCCL_DEBUG=INFO ... # its WARN line names the call that failed",
                   "Start the container with --ipc=host or --shm-size=16g"},
        .check = {"shm-size", "interface-taken", "memlock-limit"},
    },
    {
        .code = "nccl-invalid-usage",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"ncclInvalidUsage", NULL},
                    {"ncclInvalidArgument", NULL},
                    {"NCCL error in", "NCCL error in.*(?:invalid argument|invalid usage)"}},
        .sentence = "NCCL was called in a way that it refuses",
        .why = "Most often two ranks use one GPU, or a tensor is on the CPU.",
        .remedy = {"$ NCCL_DEBUG=WARN ... # names the call"},
        .check = {"gpu-visible"},
    },
    {
        .code = "nccl-internal-error",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern = {{"ncclInternalError", NULL}, {"NCCL", "NCCL.*internal error"}},
        .sentence = "NCCL failed inside",
        .why = "Most often its topology or its network plugin does not fit the machine, or a peer "
               "has ended.",
        .remedy = {"$ NCCL_DEBUG=INFO ... # its WARN line names the call that failed",
                   "Update NCCL; try NCCL_NET_PLUGIN=none"},
        .check = {"gpu-libraries", "interface-taken"},
    },
    {
        .code = "nccl-timeout",
        .weight = DIAGNOSE_WAIT,
        .pattern = {{"aught collective operation timeout",
                     "aught collective operation timeout: WorkNCCL\\(.*?OpType=(?<call>\\w+).*?"
                     "Timeout\\(ms\\)=(?<limit>\\d+)"},
                    {"aught collective operation timeout", NULL},
                    {"ollective operation timeout", NULL},
                    {"last enqueued NCCL work", NULL},
                    {"imed out waiting", "(?i)gloo.*timed out waiting .*(?:recv|send)|Timed out "
                                         "waiting \\d+ms for (?:recv|send)"},
                    {"tall ranks", "(?i)one or more tensors were submitted .* stalled"},
                    {"missing ranks", "(?i)stalled ops|missing ranks"}},
        .sentence = "a rank did not come to a collective[ ({call})] within its time[ of {limit} "
                    "ms]",
        .why = "The ranks that print this waited. The cause is the rank that is late: it may have "
               "ended, hang in data loading or evaluation, or have called something else.",
        .remedy = {"Look at the log of the rank that is late, before the time of this line",
                   "$ TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_TRACE_BUFFER_SIZE=2000 ... # which "
                   "call each rank was in",
                   "Raise the timeout only where one rank works alone for long, as in a save"},
        .check = {"gpu-recovery", "interface-rule", "ib-state"},
        .reference = "docs/troubleshooting.md#a-collective-times-out",
    },
    {
        .code = "nccl-heartbeat",
        .weight = DIAGNOSE_WAIT,
        .pattern = {{"eartbeat monitor timed out", NULL},
                    {"watchdog got stuck for", "stuck for (?<limit>\\d+) seconds"}},
        .sentence = "a call of NCCL or CUDA hangs[: nothing moved for {limit} s]",
        .why = "A call blocks inside the driver, another thread holds Python's lock, or the ranks "
               "wait for each other.",
        .remedy = {"$ py-spy dump --pid PID # on each rank that hangs",
                   "Look for a rank that ended, or that left the loop earlier than the others",
                   "Raise TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC only where a long pause is expected"},
        .check = {"gpu-recovery", "gpu-xid"},
        .reference = "docs/troubleshooting.md#a-collective-times-out",
    },
    {
        .code = "store-timeout",
        .weight = DIAGNOSE_WAIT,
        .pattern = {{"socket has timed out",
                     "timed out after (?<limit>\\d+m?s) while trying to connect to "
                     "\\(?\\[?(?<peer>[\\w.:-]+?)\\]?(?:, |:)(?<port>\\d+)"},
                    {"Timed out after",
                     "Timed out after (?<limit>\\d+) seconds waiting for clients"},
                    {"RendezvousTimeoutError", NULL},
                    {"RendezvousClosedError", NULL},
                    {"RendezvousConnectionError", NULL},
                    {"wait timeout after",
                     "(?i)wait timeout after (?<limit>\\d+m?s)|Socket Timeout"},
                    {"Socket Timeout", NULL},
                    {"tore has failed", "connection to the C10d store has failed"},
                    {"DistStoreError", NULL}},
        .sentence = "the hosts of the run did not all meet[ at {peer} port {port}][ within "
                    "{limit}]",
        .why = "A host did not start, has another MASTER_ADDR, port, number of nodes or rank of "
               "its node, or a firewall lies between.",
        .remedy = {"Start the same command on every host; only the rank of the node differs",
                   "$ nc -vz MASTER_ADDR MASTER_PORT # from each host",
                   "Look at the log of rank 0: its host must be MASTER_ADDR"},
        .check = {"peer-name", "interface-rule", "firewall", "master-variables"},
    },
    {
        .code = "peer-lost",
        .weight = DIAGNOSE_WAIT,
        .pattern =
            {{"monitoredBarrier",
              "Rank (?<rank>\\d+) successfully reached monitoredBarrier.*from rank (?<peer>\\d+)"},
             {"ailed to pass monitoredBarrier", NULL},
             {"onnection closed by remote peer", "closed by remote peer (?<peer>[\\w.-]+)"},
             {"onnection closed by peer", NULL},
             {"onnection reset by peer", NULL},
             {"Broken pipe", NULL},
             {"ncclRemoteError", NULL},
             {"has unexpectedly disconnected", NULL},
             {"emote process exited or there was a network error", NULL},
             {"eof: receive", NULL},
             {"ead from socket", "failed to recv, got 0 bytes|read from socket.*closed"}},
        .sentence = "a rank's peer[ {peer}] has closed its connection",
        .why = "The peer ended first. Its own log says why.",
        .remedy = {"Read the log of the peer: the cause is there",
                   "If every log says only this, look for killed processes: dmesg on each host"},
        .check = {"memory-available", "ib-state"},
    },
};

const diagnose_table DIAGNOSE_NETWORK = {ROWS, sizeof ROWS / sizeof *ROWS};
