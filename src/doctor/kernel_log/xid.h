// xid.h -- the numbers by which NVIDIA's driver reports faults in the kernel log ("NVRM: Xid (PCI:0000:1b:00): 79, ...").
// The check gpu-xid looks them up, and `trireme diagnose` for the logs of users. What each means is from NVIDIA's
// public list of Xid errors, in our words.
#ifndef TRIREME_DOCTOR_KERNEL_LOG_XID_H
#define TRIREME_DOCTOR_KERNEL_LOG_XID_H

#include "doctor/check.h"

// The part that is most often the cause. Most numbers have more than one.
typedef enum xid_cause {
    XID_APPLICATION, // a kernel or a call of the program that ran
    XID_DRIVER,      // the driver or its firmware on the GPU
    XID_HARDWARE,    // the GPU, its memory, its power or its slot
    XID_LINK,        // NVLink: a cable, a bridge, a switch, or the GPU at the other end
    XID_EARLIER,     // another fault, whose line stands before this one
} xid_cause;

typedef struct xid_row {
    int first, last;  // the numbers that it explains
    const char *name; // of the fault, which follows "Xid 79: "
    xid_cause cause;
    doctor_severity
        severity;       // DOCTOR_ERROR: the GPU does not work again until it is reset or replaced
    const char *remedy; // one sentence
} xid_row;

// NULL for a number that is not in the list.
const xid_row *xid_find(int number);
// "the application", "the driver", ...: follows "most often caused by ".
const char *xid_cause_text(xid_cause cause);
// Finds the Xid of a line of the kernel log, and the PCI address that the line names, such as "0000:1b:00": -1 and ""
// where the line has none. `bytes` is the size of `address`.
int xid_of_line(const char *line, char *address, size_t bytes);
// The same for "SXid", which the driver of NVSwitch writes.
int sxid_of_line(const char *line, char *address, size_t bytes);

#endif
