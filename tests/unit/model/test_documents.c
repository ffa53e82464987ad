// test_documents.c -- packed documents: the loss and every gradient of a sequence that holds several documents
// equal those of the documents apart, bit for bit where the rows of a batch are the same. Also with the
// sequence divided over context-parallel and tensor-parallel ranks.
#include "rig.h"
#include "sinks_family.h"

// Those with attention alone come first.
enum { ATTENTION_FAMILIES = 4, DELTA = 5, FAMILIES, SEQ = 16, DOCUMENTS = 4 };

static rig_options rig_gemma2(void)
{
    rig_options o = rig_llama();
    model_config_defaults(model_family_find("gemma2"), &o.config);
    o.config.layers = 2, o.config.hidden = 16, o.config.heads = 4, o.config.kv_heads = 2;
    o.config.head_dim = 6, o.config.ffn = 22, o.config.vocab = 41, o.config.max_seq = 16;
    o.config.window = 4, o.config.attention_softcap = 1.5, o.config.query_scalar = 6;
    if (model_config_finish(&o.config, NULL) != OK) abort();
    return o;
}

// A layer with another mixer, and one with attention.
static rig_options rig_mixers(const char *family)
{
    rig_options o = rig_llama();
    model_config *c = &o.config;
    model_config_defaults(model_family_find(family), c);
    c->layers = 2, c->hidden = 16, c->heads = 4, c->kv_heads = 2, c->head_dim = 8, c->ffn = 22;
    c->vocab = 41, c->max_seq = 16, c->attention_pattern = 2, c->conv_width = 4;
    c->delta = (model_delta_config){.key_heads = 2, .heads = 4, .key_dim = 4, .head_dim = 6};
    c->own[0].flag = false; // the width of LFM2's MLP is as given
    c->attending = (model_layer_set){.count = 2, .bits = {2}};
    if (model_config_finish(c, NULL) != OK) abort();
    return o;
}

// Learned positions; rotary ones; a window in every other layer and caps; a window, a cap and sinks; a convolution; a
// convolution and a gated delta rule.
static rig_options config_of(int i)
{
    rig_options o = i == 0       ? rig_gpt2()
                    : i == 2     ? rig_gemma2()
                    : i == DELTA ? rig_mixers("qwen3_5")
                    : i == 4     ? rig_mixers("lfm2")
                                 : rig_llama();
    if (i == 3) o.config.family = &sinks_family, o.config.vocab = 37;
    o.config.max_seq = SEQ;
    o.config.dropout.attention = 0; // its random numbers are keyed by the position of a key
    o.model.batch = 1, o.model.seq = SEQ;
    return o;
}

static rig_options without_dropout(int i)
{
    rig_options o = config_of(i);
    o.config.dropout = (model_dropout){0};
    return o;
}

static void check_equal(const char *what, const rig_result *a, const rig_result *b,
                        double tolerance)
{
    if (!(fabs(a->loss - b->loss) <= tolerance * fabs(a->loss)))
        fail_msg("%s: loss %.9g, not %.9g", what, b->loss, a->loss);
    assert_true(a->count == b->count);
    for (int p = 0; p < a->params; p++) {
        const double d = rig_distance(a, b, p);
        // Key biases have a true gradient of zero; what is left is rounding noise.
        if (!(d <= tolerance) && !strstr(a->name[p], "qkv.bias"))
            fail_msg("%s: %s differs by %.3g", what, a->name[p], d);
    }
}

// Do all losses and gradients have the same bits? Those of sinks are sums over the rows of a sequence, after
// sequence: they are near.
static bool same_bits(const rig_result *a, const rig_result *b)
{
    bool same = a->loss == b->loss && a->count == b->count;
    for (int p = 0; p < a->params; p++)
        if (strcmp(a->name[p], "sinks") == 0)
            same = same && rig_distance(a, b, p) <= 1e-5;
        else
            same = same && memcmp(a->grad[p], b->grad[p], (size_t)a->size[p] * sizeof(float)) == 0;
    return same;
}

// Sequences of three documents of 5 tokens, and the same tokens as three times as many sequences: all rows are
// equal, so all bits are.
static void test_documents_of_equal_length_have_the_bits_of_sequences(void **state)
{
    (void)state;
    static const int32_t starts[] = {0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10, 10, 10};
    for (int i = 0; i < ATTENTION_FAMILIES; i++)
        for (int k = 0; k < 2 * RECOMPUTES; k++) {
            rig_options o = config_of(i);
            rig_result apart, packed;
            o.model.recompute = (recompute_mode)(k / 2), o.model.type = k % 2 ? BF16 : F32;
            o.model.batch = 6, o.model.seq = 5;
            rig(&o, &apart);
            o.model.batch = 2, o.model.seq = 15, o.model.documents = true, o.starts = starts;
            rig(&o, &packed);
            if (!same_bits(&apart, &packed))
                fail_msg("%s, %s, recompute %d: differs by %.3g", o.config.family->name,
                         dtype_name(o.model.type), o.model.recompute, rig_worst(&apart, &packed));
            rig_clear(&apart);
            rig_clear(&packed);
        }
}

// Documents of 3, 7, 1 and 5 tokens.
static const int32_t STARTS[SEQ] = {0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 10, 11, 11, 11, 11, 11};
static const int64_t FIRST[DOCUMENTS + 1] = {0, 3, 10, 11, SEQ};

static rig_options packed_of(rig_options o)
{
    o.model.documents = true, o.starts = STARTS;
    return o;
}

// Runs the documents one by one, and sums losses and gradients.
static void run_apart(rig_options o, rig_result *sum)
{
    o.tokens = SEQ;
    for (int d = 0; d < DOCUMENTS; d++) {
        rig_result one;
        o.first_token = FIRST[d], o.model.seq = FIRST[d + 1] - FIRST[d];
        rig(&o, d == 0 ? sum : &one);
        if (d == 0) continue;
        sum->loss += one.loss, sum->count += one.count;
        for (int p = 0; p < one.params && o.model.mode == GRAPH_TRAIN; p++)
            for (int64_t i = 0; i < one.size[p]; i++) sum->grad[p][i] += one.grad[p][i];
        rig_clear(&one);
    }
}

static void test_documents_of_any_length_equal_documents_apart(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        const rig_options o = without_dropout(i), with = packed_of(o);
        rig_result apart, packed;
        run_apart(o, &apart);
        rig(&with, &packed);
        check_equal(o.config.family->name, &apart, &packed, 1e-5);
        rig_clear(&apart);
        rig_clear(&packed);
    }
}

static void test_the_loss_of_each_token_is_that_of_its_document(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++)
        for (int token = 0; token < SEQ; token++) {
            rig_options o = without_dropout(i);
            rig_result apart, packed;
            o.model.mode = GRAPH_EVAL, o.only_token = token + 1;
            run_apart(o, &apart);
            o = packed_of(o);
            rig(&o, &packed);
            assert_true(apart.count == (token % 7 == 3 ? 0 : 1));
            check_equal(o.config.family->name, &apart, &packed, 1e-6);
        }
}

static void compare_ranks(rig_options o, const rig_result *one, int cp, int tp, bool sequence)
{
    char what[96];
    rig_result many;
    o.cp = cp, o.ranks = tp, o.model.position.sequence_parallel = sequence;
    snprintf(what, sizeof what, "%s, cp %d, tp %d%s, recompute %d, backward %d",
             o.config.family->name, cp, tp, sequence ? ", sequence" : "", o.model.recompute,
             o.backward);
    rig(&o, &many);
    check_equal(what, one, &many, 1e-5);
    rig_clear(&many);
}

// Dropout is on: the random numbers follow the token.
static void test_ranks_of_a_packed_sequence_equal_one_rank(void **state)
{
    (void)state;
    for (int i = 0; i < DELTA; i++) {
        rig_options o = packed_of(i == 0 ? rig_gpt2() : config_of(i));
        rig_result one;
        o.config.max_seq = SEQ, o.model.batch = 2, o.model.seq = SEQ;
        rig(&o, &one);
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            o.model.recompute = (recompute_mode)recompute;
            compare_ranks(o, &one, 1, 1, false);
            compare_ranks(o, &one, 2, 1, false);
            compare_ranks(o, &one, 1, 2, i < 3);
            compare_ranks(o, &one, 2, 2, false);
        }
        compare_ranks(o, &one, 4, 1, false);
        o.backward = RIG_WGRAD_DELAYED;
        compare_ranks(o, &one, 2, 1, false);
        rig_clear(&one);
    }
}

// Context-parallel ranks do not know the documents of each other's tokens, which a gated delta rule needs.
static void test_a_delta_rule_takes_documents_on_tensor_parallel_ranks_only(void **state)
{
    (void)state;
    rig_options o = packed_of(config_of(DELTA));
    rig_result one;
    model *m = NULL;
    err e;
    rig(&o, &one);
    compare_ranks(o, &one, 1, 2, false);
    rig_clear(&one);
    o.model.position.mesh.size[AXIS_CP] = 2;
    assert_int_equal(model_open(o.config.family, &o.config, &o.model, &m, &e), E_USAGE);
    assert_non_null(strstr(e.text, "delta_rule: packed documents over context-parallel ranks"));
}

// The negative control: with other documents, every family gives another loss and other gradients.
static void test_other_documents_differ(void **state)
{
    (void)state;
    static const int32_t none[SEQ] = {0},
                         other[SEQ] = {0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 10, 11, 11, 11, 11, 11};
    for (int i = 0; i < FAMILIES; i++) {
        rig_options o = packed_of(without_dropout(i));
        rig_result right, wrong;
        rig(&o, &right);
        for (int k = 0; k < 2; k++) {
            o.starts = k ? other : none;
            rig(&o, &wrong);
            assert_true(rig_worst(&right, &wrong) > 1e-2);
            assert_true(fabs(right.loss - wrong.loss) > 1e-5 * right.loss);
            rig_clear(&wrong);
        }
        rig_clear(&right);
    }
}

// One document that fills the sequence has the bits of a model without documents.
static void test_one_document_has_the_bits_of_a_sequence(void **state)
{
    (void)state;
    static const int32_t none[SEQ] = {0};
    for (int i = 0; i < FAMILIES; i++) {
        rig_options o = config_of(i);
        rig_result without, with;
        rig(&o, &without);
        o.model.documents = true, o.starts = none;
        rig(&o, &with);
        assert_true(rig_same_bits(&without, &with));
        rig_clear(&without);
        rig_clear(&with);
    }
}

static void test_a_decoder_takes_no_documents(void **state)
{
    (void)state;
    rig_options o = rig_llama();
    model *m = NULL;
    err e;
    o.model = (model_options){.mode = GRAPH_DECODE,
                              .type = F32,
                              .batch = 1,
                              .seq = 1,
                              .cache_rows = 8,
                              .documents = true};
    assert_int_equal(model_open(o.config.family, &o.config, &o.model, &m, &e), E_USAGE);
    assert_non_null(strstr(e.text, "decoding takes one document at a time"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents_of_equal_length_have_the_bits_of_sequences),
        cmocka_unit_test(test_documents_of_any_length_equal_documents_apart),
        cmocka_unit_test(test_the_loss_of_each_token_is_that_of_its_document),
        cmocka_unit_test(test_ranks_of_a_packed_sequence_equal_one_rank),
        cmocka_unit_test(test_a_delta_rule_takes_documents_on_tensor_parallel_ranks_only),
        cmocka_unit_test(test_other_documents_differ),
        cmocka_unit_test(test_one_document_has_the_bits_of_a_sequence),
        cmocka_unit_test(test_a_decoder_takes_no_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
