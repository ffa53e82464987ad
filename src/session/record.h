// record.h -- the events of log.jsonl from what a session knows: the command train and the library
// leave the same log.
#ifndef TRIREME_SESSION_RECORD_H
#define TRIREME_SESSION_RECORD_H

#include "monitor/log.h"
#include "session/session.h"

// `resumed_from`: finished steps of the checkpoint, < 0 for a fresh run.
status session_log_start(const session *s, const job *j, const session_inputs *in,
                         const char *version, int64_t resumed_from, log_file *l, err *e);
// A step as the log and the progress line have it; `share` is not known.
monitor_step session_step(const job *j, const session_inputs *in, const trainer_step_result *s);
status session_log_eval(const session *s, const session_inputs *in, double loss, log_file *l,
                        err *e);
status session_log_save(const session *s, const char *folder, double seconds, log_file *l, err *e);

#endif
