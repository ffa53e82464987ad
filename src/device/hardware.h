// hardware.h -- whether this machine holds hardware of a vendor, whether or not it has a driver for it. The checks of
// a job call it, to tell a user only of devices that could be made to work.
#ifndef TRIREME_DEVICE_HARDWARE_H
#define TRIREME_DEVICE_HARDWARE_H

#include <stdbool.h>

// Returns whether the PCI bus lists a device of NVIDIA, or a node of its driver is in /dev, as in a container that
// was given a GPU. `root` is the folder that holds sys/ and dev/, "" for this machine.
bool hardware_has_nvidia(const char *root);

#endif
