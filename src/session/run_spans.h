// run_spans.h -- the record of what a rank does (base/spans.h): OUT/spans/rank-00003.spans, where the run owns its folder.
// run.c calls it. It does not know what a rank does.
#ifndef TRIREME_SESSION_RUN_SPANS_H
#define TRIREME_SESSION_RUN_SPANS_H

#include "session/run.h"

// Before a step: its time is taken. Once the run owns its folder, rank 0 begins its record, and so do the ranks that know
// of it; the others begin theirs when they have made a step together with rank 0.
void session_spans_begin(session_rank *r);
// After a step. A rank whose host does not see the run's folder has no record; *missing (owned by the caller) is then
// once, on rank 0, a line that names such ranks.
void session_spans_follow(session_rank *r, char **missing);
// Ends the record: the rank has done its work. Else the record only says where the rank was.
void session_spans_end(session_rank *r, bool complete);

#endif
