// unkind_fault.h -- names the rule when the process touches memory that the unkind device has closed.
// A handler of SIGSEGV prints the line, and ends the process with failure. It knows ranges of
// addresses, and no device.
#ifndef TRIREME_TESTS_UNKIND_UNKIND_FAULT_H
#define TRIREME_TESTS_UNKIND_UNKIND_FAULT_H

#include <stddef.h>

// Watches `bytes` bytes from `start` on. `line` is borrowed. Installs the handler, which leaves other
// addresses to the handler before it.
void unkind_fault_watch(const void *start, size_t bytes, const char *line);
void unkind_fault_forget(const void *start); // NULL allowed

#endif
