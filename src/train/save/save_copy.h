// save_copy.h -- what a rank writes into the files of a checkpoint, copied into memory, so that steps go on while a
// thread writes it. save_write.c fills it, save.c starts it. It knows files and bytes, no tensors.
#ifndef TRIREME_TRAIN_SAVE_SAVE_COPY_H
#define TRIREME_TRAIN_SAVE_SAVE_COPY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct save_copy save_copy;

// `space` [bytes] is borrowed. The owner calls save_copy_close.
status save_copy_open(char *space, size_t bytes, save_copy **out, err *e);
// Waits for the thread. Files that it has not written stay as they are. NULL allowed.
void save_copy_close(save_copy *c);

// Adds an open file, which the copy closes. *file is its number.
status save_copy_add_file(save_copy *c, int fd, const char *path, int *file, err *e);
// Copies bytes that belong at `offset` of a file. Where the space is full they are written at once.
status save_copy_put(save_copy *c, int file, const void *data, size_t bytes, uint64_t offset,
                     err *e);
// Starts the thread, which writes everything and makes it durable.
status save_copy_start(save_copy *c, err *e);
// Returns whether the thread has ended.
bool save_copy_ended(const save_copy *c);
// Waits for the thread, and gives its result.
status save_copy_wait(save_copy *c, err *e);

#endif
