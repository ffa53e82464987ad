// unkind_pointers.h -- which bytes of a kernel's arguments are pointers. A pointer that the table lacks
// is not translated, and the kernel that uses it ends the process with a line.
#ifndef TRIREME_TESTS_UNKIND_UNKIND_POINTERS_H
#define TRIREME_TESTS_UNKIND_UNKIND_POINTERS_H

#include "device/kernels.h"

enum { UNKIND_POINTERS = 2 * KERNEL_REDUCE_RANKS + 2 };

// The offsets in kernel_call of the pointers of a kind of kernel, ended by 0.
const size_t *unkind_pointers(kernel_kind k);

#endif
