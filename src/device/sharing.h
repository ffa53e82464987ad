// sharing.h -- how the devices of one machine share memory and wait for each other, as a table of
// functions (device_ops.sharing). The communicator p2p calls it. Ranks are processes or threads, and
// several may use one device. It does not know ranks or collectives.
//
// Memory: a rank exports memory of its device as a handle of plain bytes. Another rank imports the
// handle and gets an address, which copies and kernels of its own device take.
//
// Flags order the work of streams of several devices. A flag lies in host memory that all ranks share. Its
// calls carry no number that grows from step to step, so a recording may be replayed: a stream sets a
// flag, and the one stream that waits for it takes it away again. A flag that the host has released ends
// every wait for it, for good.
#ifndef TRIREME_DEVICE_SHARING_H
#define TRIREME_DEVICE_SHARING_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_stream;

enum { DEVICE_HANDLE_BYTES = 128, DEVICE_FLAGS_AT_ONCE = 24 };

typedef struct device_handle {
    _Alignas(8) unsigned char bytes[DEVICE_HANDLE_BYTES];
} device_handle;

// Zeroed memory is a flag that is not set. Streams write the first half alone, and the host the second.
typedef struct device_flag {
    _Alignas(8) _Atomic uint32_t is_set;
    _Atomic uint32_t is_released;
} device_flag;
_Static_assert(sizeof(device_flag) == 8, "a device reads both halves as one word");

typedef struct device_sharing {
    // Fills *out with the handle of the device memory at p, which may lie inside an allocation. E_INTERNAL
    // for other memory.
    status (*export_memory)(struct device *d, const void *p, device_handle *out, err *e);
    // Gives the address of the memory of a handle for work of d. Importing it again gives the same
    // address. A recording may be under way where the allocation was imported before. The allocation must
    // live as long as work with it. E_IO where the system refuses it.
    status (*import_memory)(struct device *d, const device_handle *h, void **out, err *e);
    // Ends all imports of d. No work with them may be pending.
    void (*close_imports)(struct device *d);
    // Memory of d that was exported may really be given back to the system when device_release says so, and
    // what was released before is. Called when no rank has an import of it. Before, device_release keeps it.
    void (*free_exported)(struct device *d);

    // Makes the flags in `bytes` bytes of page-aligned host memory usable on streams of d. The memory is
    // mapped as shared in all processes that use it. E_IO where the system refuses it.
    status (*open_flags)(struct device *d, void *memory, size_t bytes, err *e);
    // No work with the flags may be pending. is_last: no other device of this process uses them.
    void (*close_flags)(struct device *d, void *memory, bool is_last);
    // Sets `count` flags in stream order. What the stream's work wrote before is visible to every device
    // that sees a flag set. count <= DEVICE_FLAGS_AT_ONCE. May be recorded.
    void (*set_flags)(struct device_stream *s, device_flag *const *flags, int count);
    // Waits in stream order until each flag is set or released, and takes it away: it is not set then.
    // No other stream may wait for it. count <= DEVICE_FLAGS_AT_ONCE. May be recorded.
    void (*wait_flags)(struct device_stream *s, device_flag *const *flags, int count);
} device_sharing;

// Ends all waits for a flag, those of later work too. The host calls it when a rank has failed, and again until the streams
// have ended: a stream that has taken a flag away waits until it is gone, and a late rank may set it in between.
static inline void device_flag_release(device_flag *f)
{
    atomic_store(&f->is_released, 1);
    atomic_store(&f->is_set, 0);
}

#endif
