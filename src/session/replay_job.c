// replay_job.c -- see replay_job.h. Called by `trireme trace report`. It starts no rank and opens no device.
#include "session/replay_job.h"

#include "base/alloc.h"
#include "base/file.h"
#include "parallel/instructions.h"

#include <stdlib.h>
#include <string.h>

// ---- The lists

// FOLDER/job.yaml, or that of the run in whose traces/ the folder is; NULL: there is none.
static status find_job(const char *folder, char **out, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(folder, "job.yaml", &path, e));
    if (!file_exists(path)) {
        free(path);
        path = NULL;
        TRY(file_join(folder, "../../job.yaml", &path, e));
    }
    if (file_exists(path)) {
        *out = path;
        path = NULL;
    }
done:
    free(path);
    return result;
}

static status make_lists(const char *path, int ranks, replay_job *out, err *e)
{
    status result = OK;
    TRY(job_open(path, 0, NULL, &out->job, e));
    out->job->launch.ranks = ranks;
    TRY(session_inputs_open_to_plan(out->job, NULL, &out->in, e));
    TRY(session_options(out->job, &out->in, ranks, &out->options, e));
    TRY(session_stages_open(&out->options, &out->stages, e));
done:
    return result;
}

static status make_orders(replay_job *out, err *e)
{
    status result = OK;
    const int stages = out->stages.count;
    const plan *p = out->stages.plan[0];
    TRY(alloc_zeroed(&out->order, (size_t)stages, sizeof *out->order, "the order of lists", e));
    for (int i = 0; i < stages; i++)
        TRY(schedule_order_make(out->stages.plan[i], &out->stages.train[i], &out->order[i], e));
    out->known = (replay_lists){.order = out->order,
                                .stages = stages,
                                .sends_wait = out->options.strategy.pipeline.sends_wait,
                                .shared_over = p->shared_over,
                                .shared_ranks = p->shared_ranks,
                                .kept_over = p->kept_over,
                                .kept_ranks = p->o.strategy.reshard_after_forward};
done:
    return result;
}

// ---- Do they fit the record?

static bool same_name(const spans_row *row, const char *name)
{
    return strncmp(row->name, name, sizeof row->name - 1) == 0;
}

// The instructions of a record are rows 0 … count - 1, as the recorder writes them.
static status compare_rank(const replay_job *j, const run_view *v, int rank, err *e)
{
    status result = OK;
    const spans *s = v->rank[rank];
    const int stage = s->head->stage;
    text name = {0};
    if (stage < 0 || stage >= j->stages.count)
        FAIL(E_USAGE, "rank %d is of stage %d, and the job has %d", rank, stage, j->stages.count);
    const schedule *list = &j->stages.train[stage];
    int recorded = 0;
    for (uint32_t i = 0; i < s->row_count; i++) recorded += s->rows[i].kind == SPANS_INSTR;
    for (uint32_t i = 0; i < s->row_count; i++) {
        const spans_row *row = &s->rows[i];
        if (row->kind != SPANS_INSTR || row->instr < 0 || row->instr >= list->count) continue;
        text_clear(&name);
        instr_print(&list->instr[row->instr], &name);
        TRY(text_check(&name, e));
        if (!same_name(row, name.chars))
            FAIL(E_USAGE,
                 "instruction %d of rank %d is '%s' in the record, and '%s' in the job's list",
                 row->instr, rank, row->name, name.chars);
    }
    if (recorded != list->count)
        FAIL(E_USAGE, "rank %d has recorded %d instructions, and the job's list has %d", rank,
             recorded, list->count);
done:
    text_clear(&name);
    return result;
}

static status compare(const replay_job *j, const run_view *v, const char *path, err *e)
{
    status result = OK;
    for (int k = 0; k < v->ranks; k++)
        if (v->rank[k]) TRY(compare_rank(j, v, k, e));
done:
    if (result == E_USAGE) err_prefix(e, "%s does not fit the record: ", path);
    return result;
}

status replay_job_open(const run_view *v, replay_job *out, err *e)
{
    status result = OK;
    err why = {0};
    char *path = NULL;
    *out = (replay_job){.job = NULL};
    TRY(find_job(v->folder, &path, e));
    if (!path) {
        TRY(text_copy("there is no job.yaml", &out->why, e));
        goto done;
    }
    const status made = make_lists(path, v->ranks, out, &why);
    if (made == E_MEMORY) FAIL(E_MEMORY, "%s", why.text);
    if (made != OK) {
        TRY(text_copy(why.text, &out->why, e));
        goto done;
    }
    TRY(compare(out, v, path, e));
    TRY(make_orders(out, e));
done:
    free(path);
    return result;
}

void replay_job_close(replay_job *j)
{
    for (int i = 0; j->order && i < j->stages.count; i++) schedule_order_clear(&j->order[i]);
    free(j->order);
    free(j->why);
    session_stages_close(&j->stages);
    session_options_clear(&j->options);
    session_inputs_close(&j->in);
    job_close(j->job);
    *j = (replay_job){.job = NULL};
}
