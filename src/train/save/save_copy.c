// save_copy.c -- see save_copy.h.
#include "train/save/save_copy.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct copy_file {
    int fd; // -1: closed
    char *path;
} copy_file;

typedef struct copy_record {
    int file;
    const char *data;
    size_t bytes;
    uint64_t offset;
} copy_record;

struct save_copy {
    char *space;
    size_t bytes, used;
    copy_file *file; // [files]
    size_t files, file_room;
    copy_record *record; // [records]
    size_t records, record_room;
    pthread_t thread;
    bool started, joined;
    atomic_bool ended;
    status result; // of the thread
    err error;
};

status save_copy_open(char *space, size_t bytes, save_copy **out, err *e)
{
    const status result = alloc_zeroed(out, 1, sizeof **out, "the copy of a checkpoint", e);
    if (result == OK) (*out)->space = space, (*out)->bytes = bytes;
    return result;
}

static void join(save_copy *c)
{
    if (c->started && !c->joined) pthread_join(c->thread, NULL);
    c->joined = true;
}

void save_copy_close(save_copy *c)
{
    if (!c) return;
    join(c);
    for (size_t i = 0; i < c->files; i++) {
        if (c->file[i].fd >= 0) close(c->file[i].fd);
        free(c->file[i].path);
    }
    free(c->file);
    free(c->record);
    free(c);
}

status save_copy_add_file(save_copy *c, int fd, const char *path, int *file, err *e)
{
    status result = OK;
    copy_file x = {.fd = fd};
    TRY(text_copy(path, &x.path, e));
    TRY(alloc_grow(&c->file, &c->file_room, c->files + 1, sizeof *c->file,
                   "the copy of a checkpoint", e));
    *file = (int)c->files;
    c->file[c->files++] = x;
    x = (copy_file){.fd = -1};
done:
    if (result != OK) close(fd);
    free(x.path);
    return result;
}

status save_copy_put(save_copy *c, int file, const void *data, size_t bytes, uint64_t offset,
                     err *e)
{
    status result = OK;
    const copy_file *to = &c->file[file];
    if (bytes > c->bytes - c->used) return file_write_at(to->fd, to->path, data, bytes, offset, e);
    char *space = c->space + c->used;
    copy_record *last = c->records ? &c->record[c->records - 1] : NULL;
    memcpy(space, data, bytes);
    c->used += bytes;
    if (last && last->file == file && last->offset + last->bytes == offset) {
        last->bytes += bytes; // the space follows, too
        return OK;
    }
    TRY(alloc_grow(&c->record, &c->record_room, c->records + 1, sizeof *c->record,
                   "the copy of a checkpoint", e));
    c->record[c->records++] = (copy_record){file, space, bytes, offset};
done:
    return result;
}

// ---- The thread

static status write_all(save_copy *c, err *e)
{
    status result = OK;
    for (size_t i = 0; i < c->records; i++) {
        const copy_record *r = &c->record[i];
        const copy_file *to = &c->file[r->file];
        TRY(file_write_at(to->fd, to->path, r->data, r->bytes, r->offset, e));
    }
    for (size_t i = 0; i < c->files; i++) {
        const int fd = c->file[i].fd;
        c->file[i].fd = -1;
        TRY(file_close_durable(fd, c->file[i].path, e));
    }
done:
    return result;
}

static void *thread_main(void *arg)
{
    save_copy *c = arg;
    c->result = write_all(c, &c->error);
    atomic_store(&c->ended, true);
    return NULL;
}

status save_copy_start(save_copy *c, err *e)
{
    sigset_t all, before; // signals are for the rank's own thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->started = pthread_create(&c->thread, NULL, thread_main, c) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return c->started ? OK : err_set(e, E_MEMORY, "a checkpoint: cannot start a thread");
}

bool save_copy_ended(const save_copy *c)
{
    return atomic_load(&c->ended);
}

status save_copy_wait(save_copy *c, err *e)
{
    join(c);
    if (c->result != OK && e) *e = c->error;
    return c->result;
}
