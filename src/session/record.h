// record.h -- writes a session's events to log.jsonl. The command train and the library call it, so
// that both write the same log.
#ifndef TRIREME_SESSION_RECORD_H
#define TRIREME_SESSION_RECORD_H

#include "monitor/log.h"
#include "session/session.h"

// `resumed_from`: finished steps of the checkpoint; < 0 for a new run.
status session_log_start(const session *s, const job *j, const session_inputs *in,
                         const char *version, int64_t resumed_from, log_file *l, err *e);
// A step as the log and the progress line take it, without `share`, which is not known here.
monitor_step session_step(const job *j, const session_inputs *in, const trainer_step_result *s);
status session_log_eval(const session *s, const session_inputs *in, double loss, log_file *l,
                        err *e);
status session_log_save(const session *s, const char *folder, double seconds, log_file *l, err *e);

#endif
