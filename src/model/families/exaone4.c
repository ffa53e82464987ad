// exaone4.c -- EXAONE 4 (LG AI Research 2025): norms after each half of a layer; windows in three layers of four, where config.json
// gives one. The others then do not rotate.
#include "model/decoder.h"
#include "model/fields.h"

// Every fourth layer sees all tokens. "LLLG" says the same with a letter for each layer.
static const model_words PATTERN_WORDS = {"LLLG, 1, 2, 3, 4, 5, 6, 7, 8 and null",
                                          {{"null", 0},
                                           {"LLLG", 4},
                                           {"1", 1},
                                           {"2", 2},
                                           {"3", 3},
                                           {"4", 4},
                                           {"5", 5},
                                           {"6", 6},
                                           {"7", 7},
                                           {"8", 8}}};

static status exaone4_finish(model_config *c, err *e)
{
    (void)e;
    c->window_pattern = c->own[0].word;
    return OK;
}

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(0, 2, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(102400, 4096, 16384, 32, 32, 32, 2048),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {WINDOW, .value = 4096},
    {.file = {"sliding_window_pattern"}, .type = FIELD_WORD, .words = &PATTERN_WORDS, .value = 4, OWN(0)},
    {LAYER_TYPES},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{2048, 30}, {5120, 64}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "exaone4",
                                    .architectures = {"Exaone4ForCausalLM", "Exaone4Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES,
                                    .finish = exaone4_finish};

static const decoder_form FORM = {.names = {PLAIN_NAMES, POST_NORMS, PLAIN_QK_NORMS},
                                  .qk_norm = QK_NORM_HEAD,
                                  .rotates_with_window = true,
                                  .gated = true};

DECODER_FAMILY(exaone4, SCHEMA, FORM);
