// unkind_sharing.h -- the inside of an unkind device, and how unkind devices of one process share memory
// and flags (device/sharing.h). Only files of unkind/ include it.
#ifndef TRIREME_TESTS_UNKIND_UNKIND_SHARING_H
#define TRIREME_TESTS_UNKIND_UNKIND_SHARING_H

#include "device/sharing.h"
#include "unkind/unkind_device.h"
#include "unkind/unkind_memory.h"

enum { UNKIND_PEERS = 64 };

typedef struct unkind_device {
    late_queues queues;
    // unkind_lock guards all that follows.
    unkind_pool own, host;
    err broken;                               // code OK: no rule
    struct unkind_device *peer[UNKIND_PEERS]; // [peers] whose memory it has imported
    int peers;
} unkind_device;

extern const device_sharing UNKIND_SHARING;

// One lock serves all devices, because work of one uses memory of another.
void unkind_lock(void);
void unkind_unlock(void);

// The device memory of a peer that holds p and was imported; NULL: none.
unkind_pool *unkind_imported_pool(unkind_device *d, const void *p);
// No device has imported memory of d from now on. The caller closes d.
void unkind_forget(unkind_device *d);

#endif
