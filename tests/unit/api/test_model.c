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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_in_a_block_is_named),
        cmocka_unit_test(blocks_that_do_not_fit_together_are_named),
        cmocka_unit_test(a_family_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
