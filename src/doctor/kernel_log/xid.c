// xid.c -- the table of Xid numbers, and how a line is read. See xid.h. It reads no file.
#include "doctor/kernel_log/xid.h"

#include <stdlib.h>
#include <string.h>

#define REPORT "Note the line and report it to NVIDIA's support if it comes again."
#define RESET                                                                                      \
    "Stop all programs on the GPU and reset it: nvidia-smi --gpu-reset -i N; else restart the "    \
    "machine."
#define DEBUG                                                                                      \
    "Run the program under compute-sanitizer; if the same job fails on another GPU, the program "  \
    "is at fault."
#define RETIRE                                                                                     \
    "Restart the program; reset the GPU before the next run, and replace it if the number comes "  \
    "again."
#define AGAIN                                                                                      \
    "Restart the program; if the number comes again on this GPU alone, have the GPU replaced."
#define LINKS                                                                                      \
    "Look at nvidia-smi nvlink --status and --errorcounters; reset the GPUs, and have cables and " \
    "bridges checked."

static const xid_row ROWS[] = {
    {8, 8, "the GPU stopped to process work", XID_HARDWARE, DOCTOR_WARNING, AGAIN},
    {11, 11, "a stream of commands was invalid", XID_APPLICATION, DOCTOR_WARNING, DEBUG},
    {13, 13, "a kernel raised an exception, such as an address out of bounds", XID_APPLICATION,
     DOCTOR_WARNING, DEBUG},
    {25, 25, "a stream of commands was invalid", XID_APPLICATION, DOCTOR_WARNING, DEBUG},
    {31, 31, "a kernel used memory that is not mapped (page fault)", XID_APPLICATION,
     DOCTOR_WARNING, DEBUG},
    {32, 32, "a stream of commands was invalid or damaged on its way", XID_APPLICATION,
     DOCTOR_WARNING,
     "Check the PCIe link of the GPU and its riser; if it is sound, update the driver."},
    {37, 37, "the firmware was asked for what it does not know", XID_DRIVER, DOCTOR_NOTE, REPORT},
    {38, 38, "the firmware of the graphics engine did not answer", XID_DRIVER, DOCTOR_WARNING,
     "Update the driver; if the number comes again, have the GPU tested."},
    {39, 41, "a copy engine raised an exception", XID_HARDWARE, DOCTOR_WARNING, AGAIN},
    {43, 43, "a program's work was ended after a fault of its own", XID_APPLICATION, DOCTOR_WARNING,
     DEBUG},
    {44, 44, "the graphics engine failed while it changed programs", XID_DRIVER, DOCTOR_WARNING,
     REPORT},
    {45, 45, "work was removed because a program ended or an earlier fault ended it", XID_EARLIER,
     DOCTOR_NOTE, "Look for another Xid before it; alone it follows a program that was killed."},
    {46, 46, "the GPU stopped to process work and timed out", XID_HARDWARE, DOCTOR_ERROR, RESET},
    {48, 48, "an error of memory that ECC could not correct (double bit)", XID_HARDWARE,
     DOCTOR_ERROR, RETIRE},
    {54, 54, "the board lacks a power cable", XID_HARDWARE, DOCTOR_ERROR,
     "Connect the auxiliary power of the GPU."},
    {60, 60, "a video engine raised an exception", XID_APPLICATION, DOCTOR_WARNING, AGAIN},
    {61, 61, "the power controller hit a breakpoint", XID_DRIVER, DOCTOR_WARNING,
     "Update the driver; reset the GPU if its clocks stay low."},
    {62, 62, "the power controller halted", XID_HARDWARE, DOCTOR_ERROR, RESET},
    {63, 63, "a row or page of memory was marked to be replaced", XID_HARDWARE, DOCTOR_WARNING,
     "Reset the GPU when it is free: the row is replaced then; see gpu-remapped-rows."},
    {64, 64, "a bad row or page of memory could not be replaced", XID_HARDWARE, DOCTOR_ERROR,
     "Reset the GPU; if it comes again, have the GPU replaced."},
    {66, 67, "the driver used a register that it may not", XID_DRIVER, DOCTOR_NOTE, REPORT},
    {68, 68, "a video decoder raised an exception", XID_APPLICATION, DOCTOR_WARNING, AGAIN},
    {69, 69, "a kernel or a call used an invalid class or value", XID_APPLICATION, DOCTOR_WARNING,
     DEBUG},
    {70, 72, "a copy engine raised an exception", XID_HARDWARE, DOCTOR_WARNING, AGAIN},
    {74, 74, "an error of an NVLink", XID_LINK, DOCTOR_WARNING, LINKS},
    {75, 77, "a copy engine raised an exception", XID_HARDWARE, DOCTOR_WARNING, AGAIN},
    {78, 78, "a virtual GPU did not start", XID_DRIVER, DOCTOR_WARNING,
     "Make the driver of the guest match that of the host."},
    {79, 79, "the GPU has fallen off the bus", XID_HARDWARE, DOCTOR_ERROR,
     "Restart the machine; if it comes again, check power, cooling, riser and slot, then have the "
     "GPU replaced."},
    {80, 80, "data was damaged on its way to the GPU", XID_HARDWARE, DOCTOR_WARNING,
     "Check the PCIe link of the GPU and its riser."},
    {85, 85, "a copy engine raised an exception", XID_HARDWARE, DOCTOR_WARNING, AGAIN},
    {92, 92, "many errors of memory that ECC corrected", XID_HARDWARE, DOCTOR_WARNING,
     "Watch the GPU, and have it tested if the number comes again."},
    {93, 93, "the small memory that holds the GPU's records is written often", XID_HARDWARE,
     DOCTOR_NOTE, REPORT},
    {94, 94, "an error of memory that ended one program (contained)", XID_HARDWARE, DOCTOR_WARNING,
     RETIRE},
    {95, 95, "an error of memory that may have reached every program (not contained)", XID_HARDWARE,
     DOCTOR_ERROR, RESET},
    {109, 109, "the GPU could not change from one program to another in time", XID_DRIVER,
     DOCTOR_ERROR, RESET},
    {110, 110, "a security fault", XID_HARDWARE, DOCTOR_ERROR,
     "Restart the machine without power for a minute; if it comes again, have the GPU replaced."},
    {119, 119, "the GPU's system processor (GSP) did not answer", XID_DRIVER, DOCTOR_ERROR,
     "Reset the GPU or restart the machine; if it comes again, update the driver."},
    {120, 120, "the GPU's system processor (GSP) failed", XID_DRIVER, DOCTOR_ERROR,
     "Reset the GPU or restart the machine; if it comes again, update the driver."},
    {121, 121, "an error on the link between CPU and GPU (C2C)", XID_HARDWARE, DOCTOR_WARNING,
     REPORT},
    {126, 135, "a copy engine raised an exception", XID_HARDWARE, DOCTOR_WARNING, AGAIN},
    {136, 136, "an NVLink could not be trained", XID_LINK, DOCTOR_ERROR, LINKS},
    {137, 137, "another GPU refused an access over NVLink", XID_APPLICATION, DOCTOR_WARNING, DEBUG},
    {140, 140, "an error of memory that ECC could not correct, without a record of its place",
     XID_HARDWARE, DOCTOR_ERROR, RESET},
    {141, 141, "a fast path of CUDA failed", XID_DRIVER, DOCTOR_WARNING, REPORT},
    {143, 143, "the GPU did not start", XID_HARDWARE, DOCTOR_ERROR, RESET},
    {144, 150, "an error of an NVLink of the fifth generation", XID_LINK, DOCTOR_WARNING, LINKS},
    {151, 151, "keys of confidential computing could not be changed", XID_DRIVER, DOCTOR_ERROR,
     "Restart the virtual machine."},
    {154, 154, "the driver says which action the GPU needs", XID_EARLIER, DOCTOR_WARNING,
     "Do what the line says (reset, restart, or drain), and look for the Xid before it."},
    {155, 155, "an NVLink was taken down by software", XID_LINK, DOCTOR_ERROR, LINKS},
    {156, 156, "a part of the GPU was marked to be replaced", XID_HARDWARE, DOCTOR_WARNING,
     "Reset the GPU when it is free."},
    {157, 157, "a bad part of the GPU could not be replaced", XID_HARDWARE, DOCTOR_WARNING, REPORT},
    {158, 158, "the GPU did not answer in time", XID_HARDWARE, DOCTOR_ERROR, RESET},
};

const xid_row *xid_find(int number)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (number >= ROWS[i].first && number <= ROWS[i].last) return &ROWS[i];
    return NULL;
}

const char *xid_cause_text(xid_cause cause)
{
    static const char *const texts[] = {
        [XID_APPLICATION] = "the application",
        [XID_DRIVER] = "the driver or its firmware",
        [XID_HARDWARE] = "the hardware of the GPU",
        [XID_LINK] = "a link between GPUs",
        [XID_EARLIER] = "a fault that is reported before it",
    };
    return texts[cause];
}

// Lines: "NVRM: Xid (PCI:0000:1b:00): 79, pid=..."; drivers before 2014 leave out "PCI:".
static int number_of_line(const char *line, const char *word, char *address, size_t bytes)
{
    *address = '\0';
    const char *found = strstr(line, word);
    if (!found) return -1;
    const char *from = found + strlen(word);
    const char *end = strstr(from, "): ");
    if (!end) return -1;
    if (strncmp(from, "PCI:", 4) == 0) from += 4;
    const size_t length = (size_t)(end - from);
    if (length >= bytes) return -1;
    char *after;
    const long number = strtol(end + 3, &after, 10);
    if (after == end + 3 || number < 0 || number > 1000000) return -1;
    memcpy(address, from, length);
    address[length] = '\0';
    return (int)number;
}

int xid_of_line(const char *line, char *address, size_t bytes)
{
    return number_of_line(line, "NVRM: Xid (", address, bytes);
}

int sxid_of_line(const char *line, char *address, size_t bytes)
{
    return number_of_line(line, "SXid (", address, bytes);
}
