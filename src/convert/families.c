// families.c -- see families.h. Facts of llama.cpp's converter: a class for each architecture says which keys it adds and
// how it changes tensors.
#include "convert/families.h"

#include <stddef.h>
#include <string.h>

// The first row of an architecture is the family that a file becomes; the second, where there are two, that of a file with
// a window.
static const convert_family FAMILIES[] = {
    {"llama", "llama", PERMUTES | KEY_LENGTH | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS, 0},
    {"mistral", "llama", PERMUTES | KEY_LENGTH | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS, 0},
    {"ministral3", "mistral3",
     PERMUTES | KEY_LENGTH | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS | TEMPERATURE, 0},
    {"qwen2", "qwen2", 0, 0},
    {"qwen3", "qwen3", KEY_LENGTH, 0},
    {"qwen3_5", "qwen35", PLUS_ONE | ROPE_DIMS | PARTIAL_ROPE | POST_ATTENTION | DELTA_RULE, 0},
    {"gemma2", "gemma2", PLUS_ONE | KEY_LENGTH | WINDOW_KEY | SOFTCAPS | QUERY_RULE | NO_ROPE, 46},
    {"gemma3", "gemma3", PLUS_ONE | KEY_LENGTH | WINDOW_KEY | SOFTCAPS | QUERY_RULE, 62},
    {"granite", "granite",
     PERMUTES | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS | SCALES | LOGIT_FACTOR | USUAL_HEADS, 0},
    {"granite_swa", "granite_swa",
     PERMUTES | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS | SCALES | LOGIT_FACTOR | USUAL_HEADS |
         WINDOW_KEY | PATTERN | ROPE_PATTERN,
     0},
    {"phi3", "phi3", ROPE_DIMS | PARTIAL_ROPE | WINDOW_KEY | LONG_FACTORS | USUAL_HEADS, 0},
    {"gpt2", "gpt2", NO_KV_HEADS | NO_ROPE, 0},
    {"smollm3", "smollm3", PERMUTES | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS, 0},
    {"olmo2", "olmo2", 0, 0},
    {"olmo3", "olmo2", WINDOW_KEY | PATTERN, 0},
    {"starcoder2", "starcoder2", 0, 0},
    {"seed_oss", "seed_oss", KEY_LENGTH | POST_ATTENTION, 0},
    {"arcee", "arcee", PERMUTES | KEY_LENGTH | VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS, 0},
    {"cohere", "command-r", LOGIT_FACTOR | SCALING_NONE, 0},
    {"cohere2", "cohere2", LOGIT_FACTOR | SCALING_NONE | VOCAB_SIZE | ROPE_DIMS | WINDOW_KEY, 0},
    {"exaone4", "exaone4", VOCAB_SIZE | ROPE_FACTORS | WINDOW_KEY | PATTERN, 0},
    {"apertus", "apertus", VOCAB_SIZE | ROPE_DIMS | ROPE_FACTORS, 0},
    {"ernie4_5", "ernie4_5", NO_MLP_BIAS, 0},
    {"glm", "chatglm", ROPE_DIMS | PARTIAL_ROPE | USUAL_HEADS | NO_BEGIN | GLM_TOKENS, 0},
    {"glm4", "glm4", ROPE_DIMS | PARTIAL_ROPE | GLM_TOKENS, 0},
    {"hunyuan_v1_dense", "hunyuan-dense", ALPHA_BASE, 0},
    {"lfm2", "lfm2", VOCAB_SIZE | SHORT_CONV, 0},
    {"stablelm", "stablelm", NO_ROPE | ROPE_DIMS | PARTIAL_ROPE | USUAL_HEADS | PARALLEL, 0},
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

const convert_family *convert_family_of_arch(const char *arch, bool window)
{
    const convert_family *found = NULL;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(FAMILIES[i].arch, arch) != 0) continue;
        if (!found || (window && FAMILIES[i].flags & PATTERN)) found = &FAMILIES[i];
    }
    return found;
}

void convert_families_describe(text *out)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        text_addf(out, "%s%s", i ? ", " : "", FAMILIES[i].family);
}

status convert_family_require(const char *folder, const model_config *c, const convert_family **out,
                              err *e)
{
    status result = OK;
    text valid = {0};
    *out = NULL;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (strcmp(FAMILIES[i].family, c->family->name) == 0) *out = &FAMILIES[i];
    convert_families_describe(&valid);
    if (!*out)
        FAIL(E_USAGE, "%s: --to gguf: found a %s model; valid: %s", folder, c->family->name,
             valid.chars ? valid.chars : "");
done:
    text_clear(&valid);
    return result;
}

#define AT(of) offsetof(model_config, of)
const convert_key CONVERT_KEYS[] = {
    {"block_count", CONVERT_INT, AT(layers), .needs = 0},
    {"context_length", CONVERT_INT, AT(max_seq), .needs = 0},
    {"embedding_length", CONVERT_INT, AT(hidden), .needs = 0},
    {"feed_forward_length", CONVERT_INT, AT(ffn), .needs = 0},
    {"attention.head_count", CONVERT_INT, AT(heads), .needs = 0},
    {"attention.head_count_kv", CONVERT_INT, AT(kv_heads), .unless = NO_KV_HEADS | SHORT_CONV},
    {"shortconv.l_cache", CONVERT_INT, AT(conv_width), .needs = SHORT_CONV},
    {"ssm.conv_kernel", CONVERT_INT, AT(conv_width), .needs = DELTA_RULE},
    {"ssm.state_size", CONVERT_INT, AT(delta.key_dim), .needs = DELTA_RULE},
    {"ssm.group_count", CONVERT_INT, AT(delta.key_heads), .needs = DELTA_RULE},
    {"ssm.time_step_rank", CONVERT_INT, AT(delta.heads), .needs = DELTA_RULE},
    {"rope.freq_base", CONVERT_REAL, AT(rope.theta), .unless = NO_ROPE},
    {"rope.freq_base_swa", CONVERT_REAL, AT(rope.local_theta), .unless = NO_ROPE, .optional = true},
    {"attention.layer_norm_rms_epsilon", CONVERT_REAL, AT(norm_eps), .rms_norm = true},
    {"attention.layer_norm_epsilon", CONVERT_REAL, AT(norm_eps), .layer_norm = true},
    {"vocab_size", CONVERT_INT, AT(vocab), .needs = VOCAB_SIZE},
    {"attention.scale", CONVERT_REAL, AT(scales.attention), .needs = SCALES, .optional = true},
    {"embedding_scale", CONVERT_REAL, AT(scales.embedding), .needs = SCALES, .optional = true},
    {"residual_scale", CONVERT_REAL, AT(scales.residual), .needs = SCALES, .optional = true},
    {"logit_scale", CONVERT_REAL, AT(scales.logits), .needs = LOGIT_FACTOR, .optional = true},
    {"attn_logit_softcapping", CONVERT_REAL, AT(attention_softcap), .needs = SOFTCAPS,
     .optional = true},
    {"final_logit_softcapping", CONVERT_REAL, AT(logit_softcap), .needs = SOFTCAPS,
     .optional = true},
    {"attention.sliding_window", CONVERT_INT, AT(window), .needs = WINDOW_KEY, .optional = true},
    {"attention.temperature_scale", CONVERT_REAL, AT(rope.query_growth), .needs = TEMPERATURE},
    {"rope.scaling.yarn_log_multiplier", CONVERT_REAL, AT(rope.mscale_all), .needs = TEMPERATURE},
};
const int CONVERT_KEY_COUNT = sizeof CONVERT_KEYS / sizeof *CONVERT_KEYS;
