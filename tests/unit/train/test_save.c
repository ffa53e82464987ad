// test_save.c -- the ranks of any layout write a checkpoint together: its tensors are those that
// trainer_read_state brings to rank 0, and its files have the same bytes whichever ranks do not see the folder and
// send their shards. This program decides who sees it, in place of ckpt_location_find.
#include "equiv/workers.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "train/trainer_private.h"

typedef struct saves {
    unsigned blind; // bit r: rank r does not see the folder
    char scratch[64];
    bool seen[WORKERS_MOST]; // who looked for the folder and may write
} saves;

static _Thread_local struct {
    saves *all;
    int rank;
} own;

status __real_ckpt_location_find(const char *out, const ckpt_location *location, char **folder,
                                 err *e);
status __wrap_ckpt_location_find(const char *out, const ckpt_location *location, char **folder,
                                 err *e);
status __wrap_ckpt_location_find(const char *out, const ckpt_location *location, char **folder,
                                 err *e)
{
    const status result = __real_ckpt_location_find(out, location, folder, e);
    if (own.all->blind >> own.rank & 1) {
        free(*folder);
        *folder = NULL;
    }
    own.all->seen[own.rank] = *folder != NULL;
    return result;
}

static status save_as(saves *x, trainer *t, const char *name, unsigned blind, char **folder, err *e)
{
    status result = OK;
    char *out = NULL;
    const trainer_save_options o = {.out = NULL, .config_json = "{}"};
    TRY(file_join(x->scratch, name, &out, e));
    trainer_save_options here = o;
    here.out = out;
    TRY(comm_barrier(t->o.comm, e)); // every rank has ended its last save
    if (t->o.comm->rank == 0) x->blind = blind;
    if (t->o.comm->rank == 0) TRY(file_make_directories(out, e));
    TRY(comm_barrier(t->o.comm, e));
    TRY(trainer_save(t, &here, folder, e));
    for (int r = 1; r < t->o.comm->size; r++)
        if (x->seen[r] == (blind >> r & 1))
            FAIL(E_INTERNAL, "rank %d: seen %d, blind %x", r, x->seen[r], blind);
done:
    free(out);
    return result;
}

static status compare(const safetensors *in, const char *name, const float *want, int64_t count,
                      err *e)
{
    status result = OK;
    const safetensors_tensor *x = safetensors_find(in, name);
    float *found = NULL;
    if (!x) FAIL(E_INTERNAL, "%s is not there", name);
    found = malloc((size_t)count * sizeof *found);
    dtype_convert(found, F32, x->data, x->type, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        float expected = want[i];
        if (x->type == BF16) expected = bf16_to_float(float_to_bf16(expected));
        if (memcmp(&found[i], &expected, sizeof expected) != 0)
            FAIL(E_INTERNAL, "%s[%d] is %g, the ranks have %g", name, (int)i, found[i], expected);
    }
done:
    free(found);
    return result;
}

// Compares every tensor with the state that the ranks send to rank 0.
static status check_tensors(trainer *t, const ckpt *c, const model_param_files *files, err *e)
{
    static const char *const prefix[] = {"weight", "m", "v", "average"};
    status result = OK;
    float *full = NULL, *piece = NULL;
    for (int part = 0; part < STATE_GRADIENT; part++)
        for (int p = 0; p < t->model->params; p++) {
            const int64_t count = t->model->param[p].count;
            char name[PARAM_NAME_BYTES + 16];
            full = malloc((size_t)count * sizeof *full);
            piece = malloc((size_t)count * sizeof *piece);
            TRY(trainer_read_state(t, (trainer_state_kind)part, p, c ? full : NULL, e));
            snprintf(name, sizeof name, "%s.%s", prefix[part], t->model->param[p].name);
            if (c && (part == 0 ? safetensors_find(c->state, name) != NULL
                                : trainer_has_state(t, (trainer_state_kind)part, p)))
                TRY(compare(c->state, name, full, count, e));
            for (int i = 0; c && part == STATE_WEIGHT && i < files->count; i++) {
                if (files->file[i].param != p) continue;
                model_param_file_extract(t->model, &files->file[i], full, piece);
                TRY(compare(c->weights, files->file[i].name, piece,
                            (int64_t)(files->info[i].bytes / sizeof(float)), e));
            }
            free(full), free(piece);
            full = piece = NULL;
        }
done:
    free(full), free(piece);
    return result;
}

static status check_same(const char *one, const char *other, const char *name, err *e)
{
    status result = OK;
    char *path[2] = {NULL}, *bytes[2] = {NULL};
    size_t count[2];
    for (int i = 0; i < 2; i++) {
        TRY(file_join(i ? other : one, name, &path[i], e));
        TRY(file_read(path[i], &bytes[i], &count[i], e));
    }
    if (count[0] != count[1] || memcmp(bytes[0], bytes[1], count[0]) != 0)
        FAIL(E_INTERNAL, "%s and %s differ", path[0], path[1]);
done:
    for (int i = 0; i < 2; i++) free(path[i]), free(bytes[i]);
    return result;
}

static status save_and_compare(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    saves *x = all->given;
    char *seen = NULL, *blind = NULL;
    ckpt *c = NULL;
    model_param_files files = {0};
    trainer_step_result r;
    (void)g;
    own.all = x, own.rank = rank;
    TRY(trainer_step(t, false, &r, e));
    TRY(trainer_step(t, false, &r, e));
    TRY(save_as(x, t, "seen", 0, &seen, e));
    if (rank == 0) {
        TRY(ckpt_verify(seen, e));
        TRY(ckpt_open(seen, &c, e));
        TRY(model_param_files_make(t->model, F32, &files, e));
    }
    TRY(check_tensors(t, c, &files, e));
    const unsigned masks[] = {2, 0xfe}; // rank 1; all but rank 0
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "blind-%d", i);
        TRY(save_as(x, t, name, masks[i], &blind, e));
        // The manifest has the checksums of all other files.
        if (rank == 0) TRY(check_same(seen, blind, "trireme/manifest.json", e));
        if (rank == 0) TRY(ckpt_verify(blind, e));
        free(blind);
        blind = NULL;
    }
done:
    free(seen), free(blind);
    ckpt_close(c);
    model_param_files_clear(&files);
    return result;
}

static void check(const char *name, const scenario *s)
{
    saves x = {.scratch = "/tmp/trireme-save.XXXXXX"};
    assert_non_null(mkdtemp(x.scratch));
    workers_run(name, s, false, save_and_compare, &x);
    assert_int_equal(file_remove_tree(x.scratch, NULL), OK);
}

static void test_shards_of_data_parallel_ranks(void **state)
{
    (void)state;
    check("ddp", &(scenario){.replicate = 3, .global = 6});
    check("zero1", &(scenario){.shard = 2, .inner = "zero1"});
    check("zero3", &(scenario){.shard = 4, .inner = "zero3"});
    check("zero3, bf16", &(scenario){.shard = 2, .inner = "zero3", .precision = BF16});
    check("hsdp", &(scenario){.replicate = 2, .shard = 2, .inner = "zero3"});
}

static void test_shards_of_other_ranks(void **state)
{
    (void)state;
    check("tp", &(scenario){.tp = 2});
    check("tp, zero3, bf16", &(scenario){.tp = 2, .shard = 2, .inner = "zero3", .precision = BF16});
    check("llama, tp, ddp", &(scenario){.model = "llama_gqa", .tp = 2, .replicate = 2});
    check("cp", &(scenario){.cp = 2, .shard = 2, .inner = "zero2"});
    check("pp", &(scenario){.pp = 2, .shard = 2, .inner = "zero3"});
}

// Llama, of which some tensors hold the rows of two halves in turn.
static void turns_trace(graph *g, const void *config, int block)
{
    model_family_find("llama")->trace(g, config, block);
    for (int i = 0; i < g->params; i++) {
        graph_param *p = &g->param[i];
        const int64_t run = p->piece[1].rows % 4 == 0 && block % 2 ? 2 : 1;
        if (p->pieces > 1) p->piece[1].run[0] = p->piece[1].run[1] = run;
    }
}

static void test_rows_in_turn(void **state)
{
    (void)state;
    model_family turns = *model_family_find("llama");
    turns.trace = turns_trace;
    check("rows in turn, zero3",
          &(scenario){
              .model = "llama_gqa", .family = &turns, .shard = 3, .inner = "zero3", .global = 6});
    check("rows in turn, tp", &(scenario){.model = "llama_gqa",
                                          .family = &turns,
                                          .tp = 2,
                                          .shard = 2,
                                          .inner = "zero1",
                                          .precision = BF16});
}

static void test_state_that_is_elsewhere(void **state)
{
    (void)state;
    check("files", &(scenario){.shard = 2,
                               .inner = "zero3",
                               .weights = TIER_FILE,
                               .gradients = TIER_FILE,
                               .optimizer = TIER_FILE});
    check("another memory", &(scenario){.shard = 2, .inner = "zero3", .unkind = true});
    check("powersgd", &(scenario){.replicate = 2, .hook = HOOK_POWERSGD, .feedback = true});
    check("frozen", &(scenario){.shard = 2, .inner = "zero3", .match = "*.mlp.*", .freezes = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_of_data_parallel_ranks),
        cmocka_unit_test(test_shards_of_other_ranks),
        cmocka_unit_test(test_rows_in_turn),
        cmocka_unit_test(test_state_that_is_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
