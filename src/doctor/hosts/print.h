// print.h -- prints the reports of several hosts as one: each finding once, with the hosts that have it.
#ifndef TRIREME_DOCTOR_HOSTS_PRINT_H
#define TRIREME_DOCTOR_HOSTS_PRINT_H

#include "doctor/doctor.h"

// `reports` [count] are those of the hosts, `between` what differs between them. With `all`, also what
// passed and what was skipped.
status hosts_add_text(text *out, const doctor_report *reports, int count,
                      const doctor_report *between, bool all, err *e);

#endif
