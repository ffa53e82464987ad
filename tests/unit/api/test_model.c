// A model family of a program: every misuse of the builder is an error with a name, none a crash.
#include "unit/api/fixture.h"

enum { WIDTH = 8, INPUTS = 4, CLASSES = 3 };

// What is wrong in the middle one of three blocks, or in the blocks at the ends.
typedef void (*misuse)(trm_builder *b, trm_value *x);

typedef struct broken {
    misuse first, middle, last;
} broken;

static int three_blocks(const void *config)
{
    (void)config;
    return 3;
}

static trm_value *weight(trm_builder *b, const char *name, int64_t rows, int64_t cols)
{
    return trm_weight(b, name, rows, cols, TRM_NORMAL, 0.1);
}

static void trace(trm_builder *b, const void *config, int block)
{
    const broken *c = config;
    if (block == 0 && c->first) {
        c->first(b, NULL);
    } else if (block == 0) {
        trm_value *x = trm_features(b, INPUTS);
        trm_output(b, trm_linear(b, x, weight(b, "a", WIDTH, INPUTS), NULL));
    } else if (block == 1) {
        trm_value *x = trm_input(b, WIDTH);
        trm_value *h = trm_linear(b, x, weight(b, "b", WIDTH, WIDTH), NULL);
        if (c->middle) c->middle(b, h);
        trm_output(b, trm_add(b, h, x));
    } else {
        trm_value *x = trm_input(b, WIDTH);
        if (c->last)
            c->last(b, x);
        else
            trm_cross_entropy(b, x, weight(b, "c", CLASSES, WIDTH), NULL);
    }
}

static const trm_family family = {"broken", three_blocks, NULL, NULL, trace};

static trm_status read_vectors(void *context, uint64_t sample, void *inputs, void *labels,
                               trm_error *e)
{
    float *x = inputs;
    for (uint64_t i = 0; i < INPUTS; i++) x[i] = (float)((sample * 7 + i * 3) % 11) / 11;
    *(int32_t *)labels = (int32_t)(sample % CLASSES);
    (void)context, (void)e;
    return TRM_OK;
}

static const trm_dataset vectors = {
    .samples = 64, .positions = 1, .features = INPUTS, .read = read_vectors};

static trm_status explain(broken c)
{
    const char *text;
    trm_job *job = new_job();
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &vectors, &error));
    ACCEPT(trm_job_use_model(job, &family, &c, NULL, &error));
    trm_status s = trm_job_explain(job, &text, &error);
    trm_job_close(job);
    return s;
}

#define MISUSE(name, ...)                                                                          \
    static void name(trm_builder *b, trm_value *x)                                                 \
    {                                                                                              \
        (void)x;                                                                                   \
        __VA_ARGS__;                                                                               \
    }

MISUSE(add_nothing, trm_add(b, x, NULL))
MISUSE(parameter_as_value, trm_activation(b, weight(b, "w", WIDTH, WIDTH), TRM_RELU))
MISUSE(value_as_parameter, trm_linear(b, x, x, NULL))
MISUSE(wrong_width, trm_linear(b, x, weight(b, "w", WIDTH, WIDTH + 1), NULL))
MISUSE(matrix_as_bias, trm_linear(b, x, weight(b, "w", WIDTH, WIDTH), weight(b, "v", WIDTH, 1)))
MISUSE(no_rows, weight(b, "w", 0, 3))
MISUSE(no_name, weight(b, "", 1, 3))
MISUSE(odd_glu, trm_glu(b, trm_linear(b, x, weight(b, "w", 3, WIDTH), NULL), TRM_SILU))
MISUSE(no_such_activation, trm_activation(b, x, (trm_act)99))
MISUSE(certain_dropout, trm_dropout(b, x, 1))
MISUSE(no_heads, trm_attention(b, x, 0, 1, 4, 1, 0))
MISUSE(wrong_heads, trm_attention(b, x, 2, 1, 4, 1, 0))
MISUSE(no_frequency, trm_rope(b, x, 1, 8, 4, NULL, 2))
MISUSE(short_rope, trm_rope(b, x, 1, 8, 0, (double[]){1, 2}, 2))
MISUSE(ids_late, trm_ids(b))
MISUSE(input_again, trm_input(b, WIDTH))
MISUSE(early_loss, trm_cross_entropy(b, x, weight(b, "w", CLASSES, WIDTH), NULL))
MISUSE(unused_result, trm_activation(b, x, TRM_RELU))
MISUSE(late_roles, trm_value *w = weight(b, "w", WIDTH, WIDTH); trm_linear(b, x, w, NULL);
       trm_roles(b, w, TRM_MLP, TRM_EMBED))
MISUSE(roles_of_a_value, trm_roles(b, x, TRM_MLP, TRM_EMBED))
MISUSE(roles_of_a_vector,
       trm_roles(b, trm_weight(b, "w", WIDTH, 0, TRM_ONES, 0), TRM_MLP, TRM_EMBED))
MISUSE(no_such_role, trm_roles(b, weight(b, "w", WIDTH, WIDTH), (trm_role)9, TRM_EMBED))
MISUSE(many_pieces, trm_value *w = weight(b, "w", 4, WIDTH); trm_stored_rows(b, w, "v", 3);
       trm_linear(b, x, w, NULL))

static void misuse_in_a_block_is_named(void **state)
{
    static const struct {
        misuse fn;
        const char *says;
    } cases[] = {
        {add_nothing, "trm_add: an argument is NULL"},
        {parameter_as_value, "trm_activation: a parameter stands where"},
        {value_as_parameter, "trm_linear: w must be a parameter"},
        {wrong_width, "linear: x has 8 columns"},
        {matrix_as_bias, "trm_linear: bias must be a vector"},
        {no_rows, "w: found [0, 3]"},
        {no_name, "a name must have"},
        {odd_glu, "glu: 3 columns"},
        {no_such_activation, "99 is no trm_act"},
        {certain_dropout, "trm_dropout: p is 1"},
        {no_heads, "trm_attention: heads is 0"},
        {wrong_heads, "attention: 2 heads"},
        {no_frequency, "trm_rope: frequency is NULL"},
        {short_rope, "trm_rope: positions is 0"},
        {late_roles, "trm_roles: the parameter is in use; valid: right after trm_weight"},
        {roles_of_a_value, "trm_roles: w must be a parameter"},
        {roles_of_a_vector, "trm_roles: a vector has no cols"},
        {no_such_role, "trm_roles: 9, 2 are no trm_role"},
        {ids_late, "are for the first block"},
        {input_again, "trm_input: called twice"},
        {early_loss, "a loss is for the last block"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REFUSE(explain((broken){.middle = cases[i].fn}));
        HAS("broken, block 1: model graph: ");
        HAS(cases[i].says);
    }
    REFUSE(explain((broken){.middle = unused_result}));
    HAS("never used");
    REFUSE(explain((broken){.middle = many_pieces}));
    HAS("pieces of w have 3 rows");
    ACCEPT(explain((broken){.middle = NULL}));
}

MISUSE(nothing, (void)b)
MISUSE(input_first, trm_output(b, trm_linear(b, trm_input(b, 8), weight(b, "a", 8, 8), NULL)))
MISUSE(narrow, trm_output(b, trm_linear(b, trm_features(b, 4), weight(b, "a", 7, 4), NULL)))
MISUSE(no_loss, trm_output(b, trm_activation(b, x, TRM_RELU)))
MISUSE(too_many_losses, trm_value *w = weight(b, "c", CLASSES, WIDTH);
       trm_cross_entropy(b, x, w, NULL); trm_cross_entropy(b, x, w, NULL))
MISUSE(longer_bias, trm_cross_entropy(b, x, weight(b, "c", 3, WIDTH), weight(b, "d", 4, 0)))

static void blocks_that_do_not_fit_together_are_named(void **state)
{
    (void)state;
    REFUSE(explain((broken){.first = nothing}));
    HAS("broken, block 0: model graph: the first block must call trm_ids or trm_features");
    REFUSE(explain((broken){.first = input_first}));
    HAS("the first block must call");
    REFUSE(explain((broken){.first = narrow}));
    HAS("block 0 does not give what block 1 takes");
    REFUSE(explain((broken){.last = no_loss}));
    HAS("the last block must call trm_cross_entropy or trm_square_error");
    REFUSE(explain((broken){.last = too_many_losses}));
    HAS("called twice");
    REFUSE(explain((broken){.last = longer_bias}));
    HAS("w has 3 rows, the bias 4");
}

static void a_family_is_whole(void **state)
{
    (void)state;
    trm_job *job = new_job();
    trm_family f = family;
    f.trace = NULL;
    REFUSE(trm_job_use_model(job, &f, NULL, NULL, &error));
    HAS("lacks its function trace");
    f = family, f.name = NULL;
    REFUSE(trm_job_use_model(job, &f, NULL, NULL, &error));
    HAS("no name");
    REFUSE(trm_job_use_model(job, &family, NULL, "[1]", &error));
    HAS("config_json is not a JSON object");
    const broken fine = {.middle = NULL};
    const char *text;
    ACCEPT(trm_job_use_model(job, &family, &fine, NULL, &error));
    SET(job, "model.family", "gpt2");
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("model.family: given, but the program brings a model of its own");
    trm_job_close(job);
}

// ---- Roles: the same model over two ranks of tensor parallelism

// Up to an inner width and down again, with roles; `config` is what the inner width's are.
static void split_trace(trm_builder *b, const void *config, int block)
{
    const trm_role inner = *(const trm_role *)config;
    if (block != 1) {
        static const broken whole = {.middle = NULL};
        trace(b, &whole, block);
        return;
    }
    trm_value *x = trm_input(b, WIDTH);
    trm_value *up = weight(b, "up", 2 * WIDTH, WIDTH);
    trm_roles(b, up, inner, TRM_EMBED);
    trm_value *bias = trm_weight(b, "up.bias", 2 * WIDTH, 0, TRM_NORMAL, 0.1);
    trm_roles(b, bias, inner, TRM_NO_ROLE);
    trm_value *down = weight(b, "down", WIDTH, 2 * WIDTH);
    trm_roles(b, down, TRM_EMBED, inner);
    trm_value *h = trm_activation(b, trm_linear(b, x, up, bias), TRM_GELU);
    trm_output(b, trm_add(b, x, trm_linear(b, h, down, NULL)));
}

enum { STEPS = 4, WEIGHTS = 512 };

typedef struct learned {
    double loss[STEPS];
    float weight[WEIGHTS];
    size_t weights;
} learned;

static trm_status learn(trm_trainer *t, void *arg, trm_error *e)
{
    learned mine = {.weights = 0};
    trm_step s;
    trm_tensor w;
    trm_status how = TRM_OK;
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) {
        how = trm_trainer_step(t, &s, e);
        if (how == TRM_OK) mine.loss[s.step - 1] = s.loss;
    }
    for (int i = 0; how == TRM_OK && trm_trainer_tensor(t, i, &w); i++) {
        const size_t count = (size_t)(w.rows * (w.cols ? w.cols : 1));
        how = trm_trainer_read(t, w.name, mine.weight + mine.weights, count, e);
        mine.weights += count;
    }
    if (how == TRM_OK && trm_trainer_note(t)) how = trm_fail(e, TRM_FAILED, "nothing is to note");
    if (trm_trainer_rank(t) == 0) *(learned *)arg = mine;
    return how;
}

static void run_split(trm_role inner, const char *tp, learned *out)
{
    const trm_family split = {.name = "split", .blocks = three_blocks, .trace = split_trace};
    trm_job *job = new_job();
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &vectors, &error));
    ACCEPT(trm_job_use_model(job, &split, &inner, NULL, &error));
    SET(job, "parallel.tp", tp, "launch.ranks", tp, "optimizer.name", "sgd", "optimizer.lr", "0.1",
        "lr_schedule.name", "constant");
    ACCEPT(trm_run(job, learn, out, &error));
    trm_job_close(job);
}

static void assert_near(double a, double b, double most)
{
    if (!(a - b <= most && b - a <= most)) fail_msg("%.9g and %.9g", a, b);
}

static void a_program_s_model_splits_by_its_roles(void **state)
{
    (void)state;
    learned one, two;
    run_split(TRM_MLP, "1", &one);
    run_split(TRM_MLP, "2", &two);
    assert_true(one.loss[0] > 0 && one.loss[STEPS - 1] != one.loss[0]);
    for (int i = 0; i < STEPS; i++) assert_near(one.loss[i], two.loss[i], 1e-5);
    assert_int_equal(one.weights, WIDTH * INPUTS + 2 * WIDTH * (2 * WIDTH + 1) + CLASSES * WIDTH);
    assert_int_equal(two.weights, one.weights);
    for (size_t i = 0; i < one.weights; i++) assert_near(one.weight[i], two.weight[i], 1e-6);
    assert_memory_not_equal(&one, &two, sizeof one); // sums in another order
}

static trm_status explain_split(trm_role inner, const char *tp)
{
    const char *text;
    const trm_family split = {.name = "split", .blocks = three_blocks, .trace = split_trace};
    trm_job *job = new_job();
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &vectors, &error));
    ACCEPT(trm_job_use_model(job, &split, &inner, NULL, &error));
    SET(job, "parallel.tp", tp, "launch.ranks", tp);
    trm_status s = trm_job_explain(job, &text, &error);
    trm_job_close(job);
    return s;
}

static void what_cannot_be_split_is_named(void **state)
{
    (void)state;
    ACCEPT(explain_split(TRM_MLP, "4"));
    ACCEPT(explain_split(TRM_NO_ROLE, "1"));
    REFUSE(explain_split(TRM_NO_ROLE, "2"));
    HAS("no parameter of split can be sharded over parallel.tp 2");
    REFUSE(explain_split(TRM_MLP, "3"));
    HAS("an inner width of 16 does not divide over parallel.tp 3; valid: 1, 2, 4, 8, 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_s_model_splits_by_its_roles),
        cmocka_unit_test(what_cannot_be_split_is_named),
        cmocka_unit_test(misuse_in_a_block_is_named),
        cmocka_unit_test(blocks_that_do_not_fit_together_are_named),
        cmocka_unit_test(a_family_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
