// powersgd_tensors.c -- PowerSGD's state to a checkpoint and back. See powersgd_tensors.h. Called by
// save_list.c and load.c. It does not know what the factors are for (powersgd.c).
#include "train/compress/powersgd_tensors.h"

#include "base/alloc.h"
#include "base/text.h"
#include "train/trainer_private.h"

#include <stdio.h>

static const char PREFIX[] = "powersgd.";

// Whether a rank has parameter p. *second: its stage is the second of two stages that have it.
static bool has_param(const trainer *t, int p, int rank, bool *second)
{
    const mesh *m = &t->plan->o.mesh;
    const plan_row *r = &t->plan->row[p];
    const int stage = mesh_coord(m, rank, AXIS_PP);
    *second = r->tied && stage != r->stage && stage == m->size[AXIS_PP] - 1;
    return stage == r->stage || *second;
}

// The axes of the ranks that sum a parameter's gradient.
static mesh_axes summed_over(const trainer *t, int p)
{
    return plan_group_axes(&t->plan->group[t->plan->row[p].group]);
}

static powersgd_tensor tensor_of(const trainer *t, int p, const int coord[AXES], powersgd_part part,
                                 bool second, int64_t elements, int64_t cols)
{
    static const char *const name[POWERSGD_PARTS] = {"error", "right", "start"};
    const mesh *m = &t->plan->o.mesh;
    powersgd_tensor x = {.part = part,
                         .param = p,
                         .rank = mesh_rank(m, coord),
                         .rows = elements / cols,
                         .cols = cols};
    snprintf(x.name, sizeof x.name, "%s%s.dp%d.tp%d.%s%s", PREFIX, name[part],
             mesh_group_index(m, coord, summed_over(t, p)), coord[AXIS_TP], t->model->param[p].name,
             second ? ".last_stage" : "");
    return x;
}

// Lists what one rank has of one parameter. Q and its start are the same on all ranks that sum the
// gradient: only those of the first are saved.
static void list_rank(const trainer *t, int p, int rank, powersgd_tensors *out)
{
    const mesh *m = &t->plan->o.mesh;
    plan_row theirs = t->plan->row[p];
    int coord[AXES];
    bool second;
    mesh_coords(m, rank, coord);
    if (!has_param(t, p, rank, &second)) return;
    theirs.rows = model_param_shard_rows(t->model, p, coord);
    theirs.cols = model_param_shard_cols(t->model, p, coord);
    theirs.count = theirs.rows * theirs.cols;
    for (int k = 0; k < POWERSGD_PARTS; k++) {
        const powersgd_part part = (powersgd_part)k;
        const int64_t count = powersgd_part_elements(t->plan, &theirs, part);
        if (count == 0) continue;
        if (part != POWERSGD_ERROR && mesh_group_index(m, coord, summed_over(t, p)) != 0) continue;
        const int64_t cols = part == POWERSGD_ERROR ? theirs.cols : count / theirs.cols;
        if (out->items) out->items[out->count] = tensor_of(t, p, coord, part, second, count, cols);
        out->count++;
    }
}

static void list_all(const trainer *t, powersgd_tensors *out)
{
    out->count = 0;
    for (int p = 0; p < t->model->params; p++)
        for (int rank = 0; rank < t->plan->o.mesh.ranks; rank++) list_rank(t, p, rank, out);
}

status powersgd_tensors_list(const trainer *t, powersgd_tensors *out, err *e)
{
    *out = (powersgd_tensors){0};
    if (!compress_powersgd(t->compressor)) return OK;
    list_all(t, out);
    const status result =
        alloc_zeroed(&out->items, (size_t)out->count, sizeof *out->items, "the list of tensors", e);
    if (result != OK) return result;
    list_all(t, out);
    return OK;
}

bool powersgd_tensors_exist(const trainer *t)
{
    const powersgd *s = compress_powersgd(t->compressor);
    return s && powersgd_carries(s);
}

// ---- Back from a checkpoint

static int saved_count(const safetensors *state)
{
    int count = 0;
    for (size_t i = 0; i < safetensors_count(state); i++)
        count += strncmp(safetensors_get(state, i)->name, PREFIX, sizeof PREFIX - 1) == 0;
    return count;
}

// Whether the tensors of a checkpoint are exactly those of this job.
static bool are_same(const powersgd_tensors *own, const safetensors *state)
{
    for (int i = 0; i < own->count; i++) {
        const safetensors_tensor *found = safetensors_find(state, own->items[i].name);
        const size_t bytes = (size_t)(own->items[i].rows * own->items[i].cols) * sizeof(float);
        if (!found || found->type != F32 || found->bytes != bytes) return false;
    }
    return own->count == saved_count(state);
}

// Whether this rank continues from the tensor: from its own error, or from the Q of the first rank that
// sums the gradient.
static bool is_for(const trainer *t, const powersgd_tensor *x)
{
    const int first = mesh_group_first(&t->plan->o.mesh, t->plan->coord, summed_over(t, x->param));
    return (x->part == POWERSGD_ERROR ? t->plan->o.rank : first) == x->rank;
}

static status note_difference(trainer *t, err *e)
{
    text note = {0};
    if (t->note) text_addf(&note, "%s; ", t->note);
    text_add(&note, "warning: the checkpoint's PowerSGD state is of another layout of ranks or of "
                    "another hook; errors and factors start at zero");
    if (!note.chars) return err_set(e, E_FIT, "no memory for a note");
    free(t->note);
    t->note = note.chars;
    return OK;
}

status powersgd_tensors_load(trainer *t, const safetensors *state, err *e)
{
    status result = OK;
    powersgd *s = compress_powersgd(t->compressor);
    powersgd_tensors own = {0};
    if (saved_count(state) == 0) return OK;
    TRY(powersgd_tensors_list(t, &own, e));
    if (!s || !are_same(&own, state)) {
        TRY(note_difference(t, e));
        goto done;
    }
    for (int i = 0; i < own.count; i++) {
        const powersgd_tensor *x = &own.items[i];
        const safetensors_tensor *saved = safetensors_find(state, x->name);
        if (!is_for(t, x)) continue;
        TRY(device_upload(trainer_stream(t, STREAM_COMPUTE),
                          powersgd_part_ptr(s, x->param, x->part), saved->data, saved->bytes, e));
    }
    powersgd_resume(s);
done:
    free(own.items);
    return result;
}
