// kernel_log_checks.c -- checks of the messages of the kernel. Most look for lines with certain words, and report how many there
// are and the last one: one probe serves them all, and finds its words by the check's code. The others read numbers of
// faults of NVIDIA's drivers (xid.h).
#include "doctor/doctor.h"
#include "doctor/kernel_log/kernel_log.h"
#include "doctor/kernel_log/xid.h"
#include "doctor/tables.h"

#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 512, SHOWN_BYTES = 160, WORDS_MOST = 7 };

// A line has the first word, and after it the second where there is one.
typedef struct kernel_log_words {
    const char *first, *second;
} kernel_log_words;

typedef struct kernel_log_rule {
    const char *code;
    kernel_log_words words[WORDS_MOST]; // ends with {NULL}
    const char *except;                 // lines with this word do not count; NULL: all do
    int least;                          // so many lines are a fault
} kernel_log_rule;

static const kernel_log_rule RULES[] = {
    {"kernel-nvrm",
     {{"NVRM: ", "RmInitAdapter failed"},
      {"NVRM: ", "fallen off the bus"},
      {"NVRM: ", "API mismatch"},
      {"nvidia: probe of", "failed with error"},
      {"NVRM: ", "is not supported by the"}},
     "Xid",
     1},
    {"kernel-oom",
     {{"Out of memory: Killed process", NULL}, {"Memory cgroup out of memory: Killed", NULL}},
     NULL,
     1},
    {"kernel-mce",
     {{"[Hardware Error]", NULL},
      {"Machine check events logged", NULL},
      {"Machine Check Exception", NULL},
      {"EDAC ", " UE "}},
     NULL,
     1},
    {"kernel-nvme",
     {{"nvme", " timeout, "},
      {"nvme", "controller is down"},
      {"nvme", "Removing after probe failure"}},
     NULL,
     1},
    {"kernel-disk", {{"I/O error, dev ", NULL}, {"Buffer I/O error on dev", NULL}}, "dev fd", 1},
    {"kernel-filesystem",
     {{"EXT4-fs error", NULL},
      {"XFS (", "orruption"},
      {"XFS (", "metadata I/O error"},
      {"BTRFS error", NULL},
      {"emounting filesystem read-only", NULL}},
     NULL,
     1},
    {"kernel-pcie",
     {{"PCIe Bus Error: severity=", NULL},
      {"AER: ", "error received"},
      {"AER: ", "error message received"}},
     NULL,
     1},
    {"kernel-link-down",
     {
         {"Link is Down", NULL},
         {": Link down", NULL},
     },
     NULL,
     3},
    {"kernel-net-watchdog", {{"NETDEV WATCHDOG", NULL}}, NULL, 1},
    {"kernel-hung-task", {{" blocked for more than ", " seconds"}}, NULL, 1},
    {"kernel-lockup",
     {{"soft lockup - CPU#", NULL},
      {"hard LOCKUP", NULL},
      {"rcu", "self-detected stall"},
      {"rcu", "detected stalls on CPUs"}},
     NULL,
     1},
    {"kernel-segfault",
     {{"trireme[", "segfault at"}, {"trireme[", "general protection"}, {"trireme[", "trap "}},
     NULL,
     1},
    {"kernel-hot",
     {{"temperature above threshold, cpu clock throttled", NULL},
      {"temperature above threshold, cpu clock is throttled", NULL}},
     NULL,
     1},
    {"kernel-nfs", {{"nfs: server ", "not responding"}}, NULL, 1},
    {"kernel-iommu",
     {{"DMAR: [DMA", "fault"}, {"AMD-Vi: ", "IO_PAGE_FAULT"}, {"arm-smmu", "event 0x10"}},
     NULL,
     1},
};

static const kernel_log_rule *rule_of(const char *code)
{
    size_t i = 0;
    while (strcmp(RULES[i].code, code) != 0) i++;
    return &RULES[i];
}

static bool has_words(const kernel_log_rule *r, const char *line)
{
    if (r->except && strstr(line, r->except)) return false;
    for (const kernel_log_words *w = r->words; w->first; w++) {
        const char *found = strstr(line, w->first);
        if (found && (!w->second || strstr(found + strlen(w->first), w->second))) return true;
    }
    return false;
}

static status probe_words(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    const kernel_log_rule *r = rule_of(out->check->code);
    kernel_log log;
    text shown = {0};
    char line[LINE_BYTES], last[LINE_BYTES], number[16];
    int count = 0;
    bool known;
    TRY(kernel_log_read(c, out, &log, &known, e));
    for (const char *from = log.lines.chars; kernel_log_next(&from, line, sizeof line);)
        if (has_words(r, line)) {
            memcpy(last, line, sizeof last);
            count++;
        }
    if (!known || count < r->least) goto done;
    text_add_printable(&shown, last, text_cut(last, SHOWN_BYTES), "");
    TRY(text_check(&shown, e));
    snprintf(number, sizeof number, "%d", count);
    doctor_find(out, "count", number, "line", shown.chars, NULL);
done:
    text_clear(&shown);
    kernel_log_clear(&log);
    return result;
}

// ---- Xid and SXid

typedef struct kernel_log_fault {
    int number, count;
    bool fatal; // of an SXid: its line says so
    char address[32];
} kernel_log_fault;

enum { FAULTS_MOST = 64 };

static void add_fault(kernel_log_fault *faults, int *count, int number, const char *address,
                      bool fatal)
{
    int i = 0;
    while (i < *count && (faults[i].number != number || strcmp(faults[i].address, address) != 0))
        i++;
    if (i == FAULTS_MOST) return;
    if (i == *count) {
        faults[(*count)++] = (kernel_log_fault){.number = number};
        memcpy(faults[i].address, address, strlen(address) + 1);
    }
    faults[i].count++;
    faults[i].fatal = faults[i].fatal || fatal;
}

// The different faults by number and device, in the order in which they first came.
static status read_faults(const doctor_context *c, doctor_findings *out,
                          int of_line(const char *, char *, size_t), kernel_log_fault *faults,
                          int *count, err *e)
{
    status result = OK;
    kernel_log log;
    char line[LINE_BYTES], address[sizeof faults->address];
    bool known;
    *count = 0;
    TRY(kernel_log_read(c, out, &log, &known, e));
    for (const char *from = log.lines.chars; kernel_log_next(&from, line, sizeof line);) {
        const int number = of_line(line, address, sizeof address);
        if (number >= 0) add_fault(faults, count, number, address, strstr(line, ", Fatal") != NULL);
    }
done:
    kernel_log_clear(&log);
    return result;
}

static status probe_xid(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    kernel_log_fault faults[FAULTS_MOST];
    int count;
    TRY(read_faults(c, out, xid_of_line, faults, &count, e));
    for (int i = 0; i < count; i++) {
        const xid_row *row = xid_find(faults[i].number);
        char number[16], times[16];
        snprintf(number, sizeof number, "%d", faults[i].number);
        snprintf(times, sizeof times, "%d", faults[i].count);
        doctor_find_as(
            out, row ? row->severity : DOCTOR_WARNING, "where", faults[i].address, "number", number,
            "times", times, "what", row ? row->name : "a fault that Trireme does not know", "cause",
            row ? xid_cause_text(row->cause) : "something unknown", "remedy",
            row ? row->remedy : "Look the number up in NVIDIA's list of Xid errors.", NULL);
    }
done:
    return result;
}

static status probe_sxid(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    kernel_log_fault faults[FAULTS_MOST];
    int count;
    TRY(read_faults(c, out, sxid_of_line, faults, &count, e));
    for (int i = 0; i < count; i++) {
        char number[16], times[16];
        snprintf(number, sizeof number, "%d", faults[i].number);
        snprintf(times, sizeof times, "%d", faults[i].count);
        doctor_find_as(out, faults[i].fatal ? DOCTOR_ERROR : DOCTOR_WARNING, "where",
                       faults[i].address, "number", number, "times", times, "kind",
                       faults[i].fatal ? "fatal" : "not fatal", NULL);
    }
done:
    return result;
}

#define LOG "/dev/kmsg, /var/log/kern.log"

static const doctor_check ROWS[] = {
    {.code = "gpu-xid",
     .severity = DOCTOR_WARNING,
     .title = "The NVIDIA driver has reported no fault of a GPU (Xid)",
     .needs = LOG,
     .issue = "GPU {where}: Xid {number}, {what} ({times} times); most often caused by {cause}",
     .why = "The program on the GPU ended or hung. Some faults leave the GPU unusable until it is "
            "reset.",
     .remedy = {"Xid {number}: {remedy}", "$ sudo dmesg | grep Xid",
                "When it is repaired, clear the log, so that the line is not found again:",
                "$ sudo dmesg --clear"},
     .reference = "NVIDIA Xid Errors",
     .recipe = {158},
     .probe = probe_xid},
    {.code = "gpu-sxid",
     .severity = DOCTOR_WARNING,
     .title = "The NVIDIA driver has reported no fault of an NVSwitch (SXid)",
     .needs = LOG,
     .issue = "NVSwitch {where}: SXid {number}, {kind} ({times} times)",
     .why =
         "Links between GPUs are lost. After a fatal one, CUDA programs that use the switch end, "
         "and new ones do not start.",
     .remedy = {"$ systemctl status nvidia-fabricmanager",
                "After a fatal one, reset all GPUs and switches together, or restart the machine:",
                "$ sudo nvidia-smi --gpu-reset", "$ sudo dmesg --clear"},
     .reference = "NVIDIA Fabric Manager User Guide: SXid",
     .recipe = {179},
     .probe = probe_sxid},
    {.code = "kernel-nvrm",
     .severity = DOCTOR_WARNING,
     .title = "The NVIDIA driver has started every GPU",
     .needs = LOG,
     .issue = "{count} messages of a GPU that did not start; the last: {line}",
     .why = "The GPU is missing until the fault is repaired.",
     .remedy = {"$ sudo dmesg | grep NVRM", "$ nvidia-smi",
                "Install the driver and its libraries of one version; check power and slot of the "
                "GPU."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_words},
    {.code = "kernel-oom",
     .severity = DOCTOR_WARNING,
     .title = "The kernel has killed no process for lack of memory",
     .needs = LOG,
     .issue = "The kernel has killed {count} processes for lack of memory; the last: {line}",
     .why = "A rank that is killed this way leaves no message of its own; the other ranks see that "
            "it is lost.",
     .remedy = {"Take less memory: $ trireme explain JOB prints what a rank needs.",
                "Raise the memory limit of the container or the job of Slurm."},
     .reference = "docs/troubleshooting.md",
     .recipe = {158},
     .probe = probe_words},
    {.code = "kernel-mce",
     .severity = DOCTOR_WARNING,
     .title = "Processor and memory have reported no fault",
     .needs = LOG,
     .issue = "{count} messages of faults of the hardware; the last: {line}",
     .why =
         "Memory or a processor fails. A run may end, and memory without ECC gives wrong numbers.",
     .remedy = {"$ sudo ras-mc-ctl --errors",
                "Have the named memory module or processor replaced."},
     .reference = "rasdaemon(1)",
     .probe = probe_words},
    {.code = "kernel-nvme",
     .severity = DOCTOR_WARNING,
     .title = "NVMe disks answer in time",
     .needs = LOG,
     .issue = "{count} messages of an NVMe disk that did not answer; the last: {line}",
     .why = "Reads and checkpoints stop for half a minute or more, and all ranks wait.",
     .remedy = {"$ sudo nvme smart-log /dev/nvme0",
                "Update the firmware of the disk, or replace it."},
     .reference = "nvme-smart-log(1)",
     .probe = probe_words},
    {.code = "kernel-disk",
     .severity = DOCTOR_WARNING,
     .title = "Disks have had no errors",
     .needs = LOG,
     .issue = "{count} errors of disks; the last: {line}",
     .why = "Data or a checkpoint on that disk may be lost.",
     .remedy = {"$ sudo smartctl -a /dev/sda", "Save what is on the disk, and replace it."},
     .reference = "smartctl(8)",
     .probe = probe_words},
    {.code = "kernel-filesystem",
     .severity = DOCTOR_WARNING,
     .title = "File systems are consistent",
     .needs = LOG,
     .issue = "{count} errors of file systems; the last: {line}",
     .why = "The file system may be read-only now: checkpoints fail.",
     .remedy = {"$ grep ' ro[, ]' /proc/mounts",
                "Check the file system with fsck when it is free."},
     .reference = "fsck(8)",
     .probe = probe_words},
    {.code = "kernel-pcie",
     .severity = DOCTOR_WARNING,
     .title = "PCIe links have had no errors",
     .needs = LOG,
     .issue = "{count} messages of errors of PCIe links; the last: {line}",
     .why = "Corrected errors make a link slow; others take the device off the bus.",
     .remedy = {"Seat the card and its riser again, and clean the contacts.",
                "$ trireme doctor pci-aer pci-link-width"},
     .reference = "kernel documentation: PCI Express Advanced Error Reporting",
     .recipe = {175},
     .probe = probe_words},
    {.code = "kernel-link-down",
     .severity = DOCTOR_WARNING,
     .title = "Network links stay up",
     .needs = LOG,
     .issue = "Network links went down {count} times; the last: {line}",
     .why = "Connections stop or break, and a run ends with a timeout of a collective.",
     .remedy = {"Check or replace the cable or the transceiver, and the port of the switch.",
                "$ ip -s link"},
     .reference = "ip-link(8)",
     .recipe = {153, 154},
     .probe = probe_words},
    {.code = "kernel-net-watchdog",
     .severity = DOCTOR_WARNING,
     .title = "Network cards send in time",
     .needs = LOG,
     .issue = "{count} times a network card did not send for seconds; the last: {line}",
     .why = "The driver resets the card. Connections stop for seconds or break.",
     .remedy = {"Update the driver and the firmware of the card.", "$ ethtool -i INTERFACE"},
     .reference = "ethtool(8)",
     .recipe = {153},
     .probe = probe_words},
    {.code = "kernel-hung-task",
     .severity = DOCTOR_WARNING,
     .title = "No process has hung in the kernel",
     .needs = LOG,
     .issue = "{count} times a process hung in the kernel for minutes; the last: {line}",
     .why = "The process waits for a disk, a network file system or a driver that does not answer. "
            "It cannot be killed.",
     .remedy = {"$ ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /D/'",
                "Look for faults of disks, NFS servers and GPUs at the same time."},
     .reference = "kernel documentation: hung_task_timeout_secs",
     .probe = probe_words},
    {.code = "kernel-lockup",
     .severity = DOCTOR_WARNING,
     .title = "No processor has been stuck in the kernel",
     .needs = LOG,
     .issue = "{count} times a processor was stuck in the kernel; the last: {line}",
     .why = "A driver is at fault, or the host of this virtual machine has too little time for it. "
            "Ranks stop for seconds.",
     .remedy = {"Update kernel and drivers.",
                "In a virtual machine, ask for dedicated processors."},
     .reference = "kernel documentation: Softlockup detector",
     .probe = probe_words},
    {.code = "kernel-segfault",
     .severity = DOCTOR_WARNING,
     .title = "No process of Trireme has crashed",
     .needs = LOG,
     .issue = "{count} crashes of trireme; the last: {line}",
     .why = "A rank ended without a message. The line names the library and the address.",
     .remedy = {"Report the line, with the output of trireme env.",
                "Where it comes at random places, have the memory of the machine tested."},
     .reference = "docs/troubleshooting.md",
     .probe = probe_words},
    {.code = "kernel-hot",
     .severity = DOCTOR_WARNING,
     .title = "The processor has not slowed down for heat",
     .needs = LOG,
     .issue = "{count} times a processor slowed down because it was hot; the last: {line}",
     .why = "Every rank of the job waits for this host.",
     .remedy = {"Check fans, filters and air flow."},
     .reference = "kernel documentation: Thermal",
     .recipe = {161},
     .probe = probe_words},
    {.code = "kernel-nfs",
     .severity = DOCTOR_WARNING,
     .title = "NFS servers answer",
     .needs = LOG,
     .issue = "{count} times an NFS server did not answer; the last: {line}",
     .why = "Processes that read data or write checkpoints there hang until it answers.",
     .remedy = {"$ nfsstat -m", "Keep data and checkpoints on local disks, or spread the load."},
     .reference = "nfs(5)",
     .probe = probe_words},
    {.code = "kernel-iommu",
     .severity = DOCTOR_WARNING,
     .title = "The IOMMU has refused no access",
     .needs = LOG,
     .issue = "The IOMMU refused {count} accesses of devices; the last: {line}",
     .why = "A GPU or network card uses memory of another device that the IOMMU does not map: "
            "peer-to-peer copies hang or give wrong data.",
     .remedy = {"Start the kernel with iommu=pt, or switch the IOMMU off.",
                "$ trireme doctor pci-iommu pci-acs"},
     .reference = "docs/gpus.md",
     .recipe = {155},
     .probe = probe_words},
};

const doctor_table DOCTOR_KERNEL_LOG = {"Messages of the kernel", ROWS, sizeof ROWS / sizeof *ROWS};
