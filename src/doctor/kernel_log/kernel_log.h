// kernel_log.h -- the messages of the kernel since the machine started, for the checks of this folder. kernel_log.c reads them from
// /dev/kmsg, or from the files in which a system keeps them.
#ifndef TRIREME_DOCTOR_KERNEL_LOG_KERNEL_LOG_H
#define TRIREME_DOCTOR_KERNEL_LOG_KERNEL_LOG_H

#include "base/text.h"
#include "doctor/check.h"

typedef struct kernel_log {
    text lines; // one message a line
} kernel_log;

// Reads the messages. Where that is not allowed, or there are none, it tells `out` so and *known is false. Messages that
// were cleared (dmesg --clear) are left out. The caller calls kernel_log_clear.
status kernel_log_read(const doctor_context *c, doctor_findings *out, kernel_log *l, bool *known,
                       err *e);
void kernel_log_clear(kernel_log *l);
// Copies the next line, as far as it fits, and moves *from past it. Start with the text's beginning. False at the end.
bool kernel_log_next(const char **from, char *out, size_t bytes);

#endif
