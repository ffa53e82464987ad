// doctor.h -- what the files of `trireme doctor` call of each other. Private to cmd/doctor/.
#ifndef TRIREME_CMD_DOCTOR_DOCTOR_H
#define TRIREME_CMD_DOCTOR_DOCTOR_H

#include "doctor/doctor.h"

// 2 where a run must not start, 1 for warnings where `strict`, else 0.
int doctor_exit_code(const doctor_report *r, bool strict);

// ---- doctor_list.c

// Prints the table of checks: code, level and title of each, by subject; as JSON; or as the part of
// docs/troubleshooting.md that is made from it.
status doctor_print_list(bool json, bool markdown, err *e);

// ---- doctor_machine.c

// The machine file `path`, or, where that is NULL, the first one of the user's folder that fits this machine; *out is NULL
// where none does. The caller closes it. E_USAGE for a file that cannot be read.
status doctor_machine_find(const char *path, doctor_machine **out, err *e);

#endif
