// klog.h -- the messages of the kernel since the machine started, for the checks of this folder. klog.c reads them from
// /dev/kmsg, or from the files in which a system keeps them.
#ifndef TRIREME_DOCTOR_KERNEL_LOG_KLOG_H
#define TRIREME_DOCTOR_KERNEL_LOG_KLOG_H

#include "base/text.h"
#include "doctor/check.h"

typedef struct klog {
    text lines; // one message a line
} klog;

// Reads the messages. Where that is not allowed, or there are none, it tells `out` so and *known is false. Messages that
// were cleared (dmesg --clear) are left out. The caller calls klog_clear.
status klog_read(const doctor_context *c, doctor_findings *out, klog *l, bool *known, err *e);
void klog_clear(klog *l);
// Copies the next line, as far as it fits, and moves *from past it. Start with the text's beginning. False at the end.
bool klog_next(const char **from, char *out, size_t bytes);

#endif
