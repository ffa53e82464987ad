// What all commands share: how a failure is told. Called at the end of a command that failed. It
// deliberately does not know any command; the trail of an error is for debuggers, not for users.
#include "cmd/cmd.h"

#include <stdio.h>

int cmd_fail(const err *e)
{
    fprintf(stderr, "trireme: %s\n", e->text);
    return status_exit_code(e->code);
}
