// ministral3.c -- Ministral 3 (Mistral AI 2025): as Mistral, but with stretched rotary positions and queries that grow with
// their position.
#include "model/decoder.h"
#include "model/fields.h"

static status ministral3_finish(model_config *c, err *e)
{
    if (c->rope.query_growth == 0 || c->rope.kind == ROPE_YARN) return OK;
    return err_set(e, E_USAGE, "rope_query_growth: found %g, valid without model.rope yarn is null",
                   c->rope.query_growth);
}

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, 11),
    PLAIN_TIE(false),
    PLAIN_ROWS(131072, 4096, 14336, 34, 32, 8, 262144),
    PLAIN_HEAD_DIM(128),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {WINDOW},
    IGNORED("layer_types"),
    ROPE_ROWS,
    {ROPE_THETA, .value = 1e6},
    OTHERWISE(WORD, rope.kind, ROPE_YARN),
    OTHERWISE(REAL, rope.factor, 16),
    OTHERWISE(INTEGER, rope.original, 16384),
    OTHERWISE(REAL, rope.mscale, 1),
    OTHERWISE(REAL, rope.mscale_all, 1),
    {NAME("rope_query_growth"), .help = "Multiplies the query at position p by 1 + this number * log(1 + floor(p / model.rope_original)).", OF_ROPE("llama_4_scaling_beta") | FIELD_NULLABLE | FIELD_ZERO_IS_NULL, REAL(0, 1e6, rope.query_growth), OF_KIND(YARN)},
    OTHERWISE(REAL, rope.query_growth, 0.1),
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{3072, 26}, {4096, 34}, {5120, 40}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {.model_type = "ministral3",
                                    .architectures = {"Ministral3ForCausalLM", "Ministral3Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES,
                                    .finish = ministral3_finish};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS}, .gated = true};

DECODER_FAMILY(ministral3, SCHEMA, FORM);
