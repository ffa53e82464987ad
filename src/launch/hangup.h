// hangup.h -- whether SIGHUP, which a terminal sends when it is closed, stops what this process runs. Used in launch/ only.
#ifndef TRIREME_LAUNCH_HANGUP_H
#define TRIREME_LAUNCH_HANGUP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

// Returns false where nohup, or whatever started this process, has it ignore the signal.
static inline bool hangup_stops(void)
{
    struct sigaction now;
    return sigaction(SIGHUP, NULL, &now) != 0 || now.sa_handler != SIG_IGN;
}

#endif
