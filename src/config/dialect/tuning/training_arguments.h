// training_arguments.h -- TrainingArguments of transformers, which several systems' dialects are based on. Private to
// config/dialect/.
#ifndef TRIREME_CONFIG_DIALECT_TUNING_TRAINING_ARGUMENTS_H
#define TRIREME_CONFIG_DIALECT_TUNING_TRAINING_ARGUMENTS_H

#include "config/dialect/tuning/tuning.h"

// Rows of fsdp and fsdp_config, for training_arguments_finish_fsdp. Keys of the section begin with fsdp_.
// clang-format off
#define TUNING_FSDP_ROWS \
    READ("fsdp", DIALECT_ANY, NULL), \
    SECTION("fsdp_config"), \
    READ_WITH("fsdp_config.fsdp_version", DIALECT_WHOLE, "2", .low = 1), \
    READ("fsdp_config.fsdp_reshard_after_forward", DIALECT_TEXT, "true"), \
    READ("fsdp_config.fsdp_cpu_offload", DIALECT_BOOL, "false"), \
    READ("fsdp_config.fsdp_offload_params", DIALECT_BOOL, "false"), \
    READ("fsdp_config.fsdp_activation_checkpointing", DIALECT_BOOL, "false"), \
    READ("fsdp_config.fsdp_sharding_strategy", DIALECT_TEXT, NULL), \
    NOTHING("fsdp_config.fsdp_auto_wrap_policy", DIALECT_TEXT, NULL, "a block of the model is gathered as a whole"), \
    NOTHING("fsdp_config.fsdp_transformer_layer_cls_to_wrap", DIALECT_ANY, NULL, "a block of the model is gathered as a whole"), \
    NOTHING("fsdp_config.fsdp_min_num_params", DIALECT_WHOLE, "0", "a block of the model is gathered as a whole"), \
    NOTHING("fsdp_config.fsdp_backward_prefetch", DIALECT_TEXT, NULL, "the next block is gathered while one computes"), \
    NOTHING("fsdp_config.fsdp_forward_prefetch", DIALECT_BOOL, "false", "the next block is gathered while one computes"), \
    NOTHING("fsdp_config.fsdp_limit_all_gathers", DIALECT_BOOL, "true", "the next block is gathered while one computes"), \
    NOTHING("fsdp_config.fsdp_use_orig_params", DIALECT_BOOL, "true", "parameters always keep their own names"), \
    NOTHING("fsdp_config.fsdp_sync_module_states", DIALECT_BOOL, "true", "ranks read what they own of a checkpoint"), \
    NOTHING("fsdp_config.fsdp_cpu_ram_efficient_loading", DIALECT_BOOL, "true", "ranks read what they own of a checkpoint"), \
    NOTHING("fsdp_config.fsdp_state_dict_type", DIALECT_TEXT, NULL, "a checkpoint is always a HuggingFace folder"), \
    NOTHING("fsdp_config.fsdp_mixed_precision_policy", DIALECT_ANY, NULL, "train.precision says it"), \
    NOTHING("fsdp_config.fsdp_ignored_modules", DIALECT_ANY, NULL, NULL), \
    REFUSED("fsdp_config.fsdp_xla", DIALECT_BOOL, "false", "XLA is no device of Trireme"), \
    NOTHING("fsdp_config.fsdp_xla_fsdp_v2", DIALECT_BOOL, "false", NULL), \
    NOTHING("fsdp_config.fsdp_xla_fsdp_settings", DIALECT_ANY, NULL, NULL), \
    NOTHING("fsdp_config.fsdp_xla_fsdp_grad_ckpt", DIALECT_BOOL, "false", NULL)
// clang-format on

// Has rows alone, and is no dialect of the registry. A dialect that is based on it calls the function below.
extern const dialect dialect_training_arguments;

// Sets what several of its keys decide together.
status training_arguments_finish(const dialect_reader *r, err *e);
// Sets the strategy from fsdp and fsdp_config.
status training_arguments_finish_fsdp(const dialect_reader *r, err *e);

#endif
