// trace_tar.h -- writes a tar archive (ustar) of files that are in memory. The writer of Perfetto's archive calls it. It
// does not know what the files hold.
#ifndef TRIREME_MONITOR_TRACE_TRACE_TAR_H
#define TRIREME_MONITOR_TRACE_TRACE_TAR_H

#include "base/file.h"

// Adds a file. The name has at most 99 bytes, the file less than 8 GiB. `seconds` is its time since 1970.
status trace_tar_add(file_writer *w, const char *name, const void *data, size_t bytes,
                     int64_t seconds, err *e);
// Adds the end of the archive; the caller finishes the file.
status trace_tar_end(file_writer *w, err *e);

#endif
