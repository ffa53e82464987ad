// save_write.c -- all ranks write the tensors of a checkpoint into its files together. See save.h.
//
// Every rank walks the same list in the same order: file by file, tensor by tensor, shard by shard. The rank
// that has a shard writes its elements at their place. A rank that does not see the folder sends the
// shard to rank 0 instead, which then is at the same place of the list. Shards go through buffers of a fixed
// size, in rows that lie next to each other in the full tensor.
#include "base/alloc.h"
#include "train/packed.h"
#include "train/save/save.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

#include <fcntl.h>
#include <unistd.h>

static const size_t BUFFER_BYTES = 4 << 20;

typedef struct save_writer {
    trainer *t;
    const model_folder *carried; // that the tensors without a parameter are copied from
    bool *sees;                  // [ranks] whether a rank writes its shards itself
    bool all_see;
    char *folder; // NULL: this rank does not see it
    size_t room;  // elements in each buffer
    char *given;  // [room] as they lie in a shard
    float *row_major, *turned;
    save_copy *copy; // that takes what this rank writes; NULL: files do
} save_writer;

// A tensor in an open file.
typedef struct save_target {
    int fd; // -1: this rank writes nothing
    const char *path;
    save_copy *copy; // NULL: rows are written at once
    int copy_file;
    uint64_t begin;
    dtype type;
    int64_t first_row, rows, cols; // the rows of the parameter that the tensor has
    bool transposed;
    const graph_param *decl; // NULL: the tensor has the rows in their order
    int piece;
} save_target;

// One rank's shard of a parameter, or a tensor that one rank has: complete rows.
typedef struct save_shard {
    int rank;
    dtype type;
    const char *own;           // its first element, on the rank that has it
    int param;                 // -1: the rows are those of the tensor
    const int *coord;          // [AXES] of the rank; borrowed
    int64_t first, rows, cols; // rows of the shard that the rank computes with
    int64_t width; // elements in which a row lies there: cols, or the words of a packed row
} save_shard;

// ---- A block of rows

static status put_bytes(const save_target *to, const char *from, size_t bytes, uint64_t offset,
                        err *e)
{
    if (to->copy) return save_copy_put(to->copy, to->copy_file, from, bytes, offset, e);
    return file_write_at(to->fd, to->path, from, bytes, offset, e);
}

// Writes [rows, cols] elements of the tensor's type, from its row and column on.
static status put_rows(const save_target *to, const char *from, int64_t row, int64_t rows,
                       int64_t col, int64_t cols, int64_t width, err *e)
{
    status result = OK;
    const size_t each = dtype_bytes(to->type);
    const bool whole = cols == width;
    const int64_t pieces = whole ? 1 : rows, elements = whole ? rows * cols : cols;
    for (int64_t i = 0; i < pieces; i++)
        TRY(put_bytes(to, from + (size_t)(i * elements) * each, (size_t)elements * each,
                      to->begin + (uint64_t)((row + i) * width + col) * each, e));
done:
    return result;
}

// Writes w->given [rows, cols], which is of type `type` and begins at this row and column of the tensor.
static status put_block(save_writer *w, const save_target *to, dtype type, int64_t row,
                        int64_t rows, int64_t col, int64_t cols, err *e)
{
    const size_t count = (size_t)(rows * cols);
    char *stored = w->given;
    if (to->transposed || type != to->type) {
        const float *x = (const float *)w->given;
        if (type != F32) dtype_convert(w->row_major, F32, w->given, type, count);
        if (type != F32) x = w->row_major;
        if (to->transposed) model_param_transpose(x, rows, cols, w->turned);
        if (to->transposed) x = w->turned;
        stored = (char *)x;
        if (to->type != F32) {
            stored = x == (const float *)w->given ? (char *)w->row_major : w->given;
            dtype_convert(stored, to->type, x, F32, count);
        }
    }
    return to->transposed ? put_rows(to, stored, col, cols, row, rows, to->rows, e)
                          : put_rows(to, stored, row, rows, col, cols, to->cols, e);
}

// Brings rows of the shard to the rank that writes them.
static status bring_block(save_writer *w, const save_shard *x, int64_t row, int64_t rows, err *e)
{
    const size_t each = dtype_bytes(x->type), bytes = (size_t)(rows * x->width) * each;
    trainer *t = w->t;
    const char *own = x->own ? x->own + (size_t)((row - x->first) * x->width) * each : NULL;
    if (!own) return exchange_receive(t, w->given, bytes, x->rank, e);
    if (!w->folder) return exchange_send(t, own, bytes, e);
    return device_download(trainer_stream(t, STREAM_COMPUTE), w->given, own, bytes, e);
}

// Unpacks the rows that were brought.
static void unpack_block(save_writer *w, const save_shard *x, int64_t rows)
{
    plan_row r = w->t->plan->row[x->param];
    r.cols = x->cols;
    packed_to_rows(w->t, &r, (plan_shard){0, rows * x->width}, w->given, w->row_major);
    memcpy(w->given, w->row_major, (size_t)(rows * x->cols) * sizeof *w->row_major);
}

// ---- A shard

// The place of a row of the shard in the parameter. Returns how many rows from there on are next to each
// other there, too.
static int64_t place_of(const save_writer *w, const save_shard *x, int64_t row, int64_t *full_row,
                        int64_t *col)
{
    *full_row = row, *col = 0;
    const int64_t left = x->first + x->rows - row;
    if (x->param < 0) return left;
    const int64_t run =
        model_param_shard_place(w->t->model, x->param, x->coord, row, full_row, col);
    return run < left ? run : left;
}

// Rows that several ranks have alike are written by one of them.
static bool writes_row(const save_writer *w, const save_shard *x, int64_t row)
{
    return x->param < 0 || model_param_writes_row(w->t->model, x->param, x->coord, row);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The row of the tensor that has this row of its rows. *n becomes no more than the rows that follow it in both.
static int64_t row_of(const save_target *to, int64_t row, int64_t *n)
{
    int64_t follow = *n;
    if (!to->decl) return row;
    row = model_param_file_row(to->decl, to->piece, row, &follow);
    *n = least(*n, follow);
    return row;
}

static status move_shard(save_writer *w, const save_target *to, const save_shard *x, err *e)
{
    status result = OK;
    const int64_t end = to->first_row + to->rows, most = (int64_t)w->room / x->cols;
    int64_t full, col;
    for (int64_t row = x->first, n; row < x->first + x->rows; row += n) {
        n = place_of(w, x, row, &full, &col);
        if (full < to->first_row) n = least(n, to->first_row - full);
        if (full < to->first_row || full >= end) continue;
        n = least(n, least(end - full, most));
        if (!writes_row(w, x, row)) continue;
        const int64_t to_row = row_of(to, full - to->first_row, &n);
        TRY(bring_block(w, x, row, n, e));
        if (x->width != x->cols && to->fd >= 0) unpack_block(w, x, n);
        if (to->fd >= 0) TRY(put_block(w, to, x->type, to_row, n, col, x->cols, e));
    }
done:
    return result;
}

// Whether this rank has anything to do with a shard of rank `rank`.
static bool takes_part(const save_writer *w, int rank)
{
    const int own = w->t->o.comm->rank;
    return rank == own || (own == 0 && !w->sees[rank]);
}

// ---- A tensor

static status write_powersgd(save_writer *w, const save_target *to, const powersgd_tensor *x,
                             err *e)
{
    save_shard s = {.rank = x->rank,
                    .type = F32,
                    .param = -1,
                    .rows = x->rows,
                    .cols = x->cols,
                    .width = x->cols};
    if (!takes_part(w, x->rank)) return OK;
    if (x->rank == w->t->o.comm->rank)
        s.own =
            (const char *)powersgd_part_ptr(compress_powersgd(w->t->compressor), x->param, x->part);
    return move_shard(w, to, &s, e);
}

// The shard of the rank at these coordinates.
static status write_shard(save_writer *w, const save_target *to, const save_tensor *x,
                          const state_shards *kind, int rank, const int coord[AXES], err *e)
{
    status result = OK;
    trainer *t = w->t;
    const plan_row *r = &t->plan->row[x->param];
    plan_row theirs = *r;
    theirs.rows = model_param_shard_rows(t->model, x->param, coord);
    theirs.cols = model_param_shard_cols(t->model, x->param, coord);
    plan_shard elements = plan_local_shard(t->plan, &theirs, kind->shards, coord);
    const int64_t width = plan_row_width(t->plan, &theirs, kind->shards);
    char *own = NULL;
    if (elements.count == 0) goto done;
    if (rank == t->o.comm->rank) TRY(state_shards_find(t, kind, r, false, &own, &elements, e));
    const save_shard s = {.rank = rank,
                          .type = kind->type,
                          .own = own,
                          .param = x->param,
                          .coord = coord,
                          .first = elements.first / width,
                          .rows = elements.count / width,
                          .cols = theirs.cols,
                          .width = width};
    TRY(move_shard(w, to, &s, e));
done:
    return result;
}

// `copy`: of the ranks that have the same shard, the one that writes it.
static status write_param(save_writer *w, const save_target *to, const save_tensor *x,
                          const state_shards *kind, int copy, err *e)
{
    status result = OK;
    const trainer *t = w->t;
    const mesh *m = &t->plan->o.mesh;
    const plan_row *r = &t->plan->row[x->param];
    for (int rank = 0; rank < m->ranks; rank++) {
        int coord[AXES];
        if (!takes_part(w, rank)) continue;
        mesh_coords(m, rank, coord);
        if (!state_shards_has_copy(t, r, kind->shards, copy, coord)) continue;
        TRY(write_shard(w, to, x, kind, rank, coord, e));
    }
done:
    return result;
}

static void set_rows(const trainer *t, const save_tensor *x, save_target *to)
{
    const graph_param *d = t->model->param[x->param].decl;
    to->cols = graph_param_cols(d);
    to->rows = x->file ? d->piece[x->file->piece].rows : d->dim[0];
    to->first_row = x->file ? x->file->first_row : 0;
    to->decl = x->file ? d : NULL, to->piece = x->file ? x->file->piece : 0;
    to->transposed = x->file && model_param_file_is_transposed(t->model, x->file);
}

// Rank 0 always sees the folder.
static status write_carried(save_writer *w, const save_target *to, const model_carried *x, err *e)
{
    if (w->t->o.comm->rank != 0) return OK;
    return model_folder_copy(w->carried, x, w->given, w->room * sizeof(float), to->fd, to->path,
                             to->begin, e);
}

// Ranks with the same shards divide a file: each writes the tensors that begin in its part of it. Ranks that
// do not see the folder would send what rank 0 has, so that then the first copy is written.
static status write_tensor(save_writer *w, save_target *to, const ckpt_file *f,
                           const save_tensor *x, err *e)
{
    const trainer *t = w->t;
    if (x->carried) return write_carried(w, to, x->carried, e);
    if (x->powersgd) {
        to->rows = x->powersgd->rows, to->cols = x->powersgd->cols;
        return write_powersgd(w, to, x->powersgd, e);
    }
    const plan_row *r = &t->plan->row[x->param];
    const state_shards kind = state_shards_of(&t->plan->group[r->group], x->part);
    const uint64_t copies = (uint64_t)state_shards_copies(t, r, kind.shards);
    const int copy = w->all_see ? (int)(to->begin / (f->layout.bytes / copies + 1)) : 0;
    set_rows(t, x, to);
    return write_param(w, to, x, &kind, copy, e);
}

// ---- A file

static status write_file(save_writer *w, const save_list *l, const ckpt_file *f, err *e)
{
    status result = OK;
    const save_tensors *all = f->is_state ? &l->state : &l->weights;
    char *path = NULL;
    int fd = -1;
    if (w->folder) {
        TRY(file_join(w->folder, f->name, &path, e));
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            result = err_errno(e, "cannot open %s", path);
            goto done;
        }
    }
    int copy_file = -1;
    const int opened = fd;
    if (fd >= 0 && w->copy) {
        fd = -1; // the copy closes it
        TRY(save_copy_add_file(w->copy, opened, path, &copy_file, e));
    }
    for (size_t k = 0; k < f->count; k++) {
        const size_t i = f->layout.order[k];
        save_target to = {.fd = opened,
                          .path = path,
                          .copy = w->copy,
                          .copy_file = copy_file,
                          .begin = f->layout.begin[i],
                          .type = all->info[f->first + i].type};
        TRY(write_tensor(w, &to, f, &all->items[f->first + i], e));
    }
    if (fd >= 0) {
        const int written = fd;
        fd = -1;
        TRY(file_close_durable(written, path, e));
    }
done:
    if (fd >= 0) close(fd);
    free(path);
    return result;
}

// ---- Who sees the folder

static status find_folder(save_writer *w, const char *out, const char *folder, err *e)
{
    status result = OK;
    trainer *t = w->t;
    const uint64_t *all;
    const int ranks = t->o.comm->size;
    ckpt_location location = {.name = ""};
    if (folder) TRY(ckpt_location_of(folder, &location, e));
    TRY(exchange_broadcast(t, &location, sizeof location, 0, e));
    if (folder)
        TRY(text_copy(folder, &w->folder, e));
    else
        TRY(ckpt_location_find(out, &location, &w->folder, e));
    exchange_set_number(t, 0, w->folder != NULL);
    TRY(exchange_gather(t, &all, e));
    TRY(alloc_array(&w->sees, (size_t)ranks, sizeof *w->sees, "the ranks that write", e));
    w->all_see = true;
    for (int r = 0; r < ranks; r++) {
        w->sees[r] = all[r * exchange_numbers(t)] != 0;
        w->all_see = w->all_see && w->sees[r];
    }
done:
    return result;
}

static status open_buffers(save_writer *w, const save_list *l, err *e)
{
    status result = OK;
    static const char what[] = "the buffers of a save";
    const model *m = w->t->model;
    w->room = BUFFER_BYTES / sizeof(float);
    for (int p = 0; p < m->params; p++)
        if ((size_t)graph_param_cols(m->param[p].decl) > w->room)
            w->room = (size_t)graph_param_cols(m->param[p].decl);
    for (int i = 0; i < l->powersgd.count; i++)
        if ((size_t)l->powersgd.items[i].cols > w->room)
            w->room = (size_t)l->powersgd.items[i].cols;
    TRY(alloc_array(&w->given, w->room, sizeof(float), what, e));
    TRY(alloc_array(&w->row_major, w->room, sizeof(float), what, e));
    TRY(alloc_array(&w->turned, w->room, sizeof(float), what, e));
done:
    return result;
}

status save_write(trainer *t, const save_list *l, const model_folder *carried,
                  const ckpt_files *files, const char *out, const char *folder, save_copy *copy,
                  err *e)
{
    status result = OK;
    save_writer w = {.t = t, .carried = carried, .copy = copy};
    TRY(open_buffers(&w, l, e));
    TRY(find_folder(&w, out, folder, e));
    for (size_t i = 0; i < files->count; i++) TRY(write_file(&w, l, &files->file[i], e));
    TRY(comm_barrier(t->o.comm, e));
done:
    free(w.sees);
    free(w.folder);
    free(w.given);
    free(w.row_major);
    free(w.turned);
    return result;
}
