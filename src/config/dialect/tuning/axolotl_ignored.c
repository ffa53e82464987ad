// axolotl_ignored.c -- the keys of axolotl's files that have no row of their own in axolotl.c: keys that no result depends
// on, or that another key turns on. dialect.c finds them by their names. See axolotl.h.
#include "config/dialect/tuning/axolotl.h"

// clang-format off
static const char *const IGNORED[] = {
    "accelerator_config", "attn_implementation", "auto_resume_from_checkpoints", "axolotl_config_path",
    "bench_dataset", "bench_split", "chunked_cross_entropy", "chunked_cross_entropy_num_chunks", "comet_api_key",
    "comet_experiment_config", "comet_experiment_key", "comet_mode", "comet_online", "comet_project_name",
    "comet_workspace", "cpo_alpha", "dataloader_drop_last", "dataloader_num_workers", "dataloader_pin_memory",
    "dataloader_prefetch_factor", "dataset_keep_in_memory", "dataset_num_proc", "dataset_prepared_path",
    "dataset_processes", "ddp", "ddp_broadcast_buffers", "ddp_bucket_cap_mb", "deepcompile", "device", "device_map",
    "dion_lr", "dion_momentum", "dion_rank_fraction", "dion_rank_multiple_of", "dpo_generate_during_eval",
    "dpo_padding_free", "dpo_use_liger_kernel", "dpo_use_logits_to_keep", "dynamic_checkpoint", "eaft_alpha",
    "eaft_k", "eager_attention", "ebft", "embeddings_skip_upcast", "eval_batch_size", "eval_causal_lm_metrics",
    "eval_max_new_tokens", "eval_sample_packing", "eval_sequence_len", "eval_table_size",
    "experimental_skip_move_to_device", "experts_implementation", "flash_attn_cross_entropy", "flash_attn_d512",
    "flash_attn_fuse_mlp", "flash_attn_rms_norm", "flash_optimum", "flex_attention", "flex_attn_compile_kwargs",
    "fp32_norm_classes", "fp32_norms", "fp8_enable_fsdp_float8_all_gather", "freeze_mm_modules",
    "fused_attn_kernel", "gc_collect_steps", "gc_steps", "gemma4_hybrid_attn_impl", "generation_do_sample",
    "generation_max_new_tokens", "generation_prompt_ratio", "generation_temperature", "generation_top_k",
    "generation_top_p", "gradient_checkpointing_kwargs", "gradio_max_new_tokens", "gradio_server_name",
    "gradio_server_port", "gradio_share", "gradio_temperature", "gradio_title", "greater_is_better",
    "heads_k_stride", "hf_mlflow_log_artifacts", "hf_use_auth_token", "hub_revision", "hub_strategy",
    "include_tkps", "include_tokens_per_second", "is_falcon_derived_model", "is_llama_derived_model",
    "is_mistral_derived_model", "is_preprocess", "is_qwen_derived_model", "jagged_restart_anneal_steps",
    "jagged_restart_warmup_steps", "large_head_attention", "lisa_layers_attribute", "lisa_step_interval",
    "llama4_linearized_experts", "local_rank", "logging_steps", "lora_embedding_kernel", "lora_mlp_kernel",
    "lora_o_kernel", "lora_on_cpu", "lora_qkv_kernel", "loraplus_lr_embedding", "loss_watchdog_patience",
    "low_cpu_mem_usage", "mean_resizing_embeddings", "merge_lora", "merge_method", "mlflow_experiment_name",
    "mlflow_run_name", "mlflow_tracking_uri", "model_quantization_config_kwargs", "multipack_real_batches",
    "num_dataset_shards_to_save", "num_generation_samples", "otel_metrics_host", "otel_metrics_port",
    "pad_to_multiple_of", "pad_to_sequence_len", "peft_autocast_adapter_dtype", "peft_ensure_weight_tying",
    "pose_max_context_len", "pose_num_chunks", "pose_split_on_token_ids", "preprocess_iterable",
    "pretrain_multipack_attn", "pretrain_multipack_buffer_size", "profiler_steps", "profiler_steps_start",
    "push_dataset_to_hub", "qgalore_cos_threshold", "qgalore_gamma_proj", "qgalore_proj_bits",
    "qgalore_proj_group_size", "qgalore_proj_quant", "qgalore_proj_type", "qgalore_queue_size", "qgalore_rank",
    "qgalore_scale", "qgalore_update_proj_gap", "qlora_sharded_model_loading", "ray_num_workers", "ray_run_name",
    "relora_cpu_offload", "relora_prune_method", "relora_prune_ratio", "remove_unused_columns",
    "resources_per_worker", "ring_attn_func", "role_boundaries", "sage_attention", "sample_packing_bin_size",
    "sample_packing_eff_est", "sample_packing_group_size", "sample_packing_mp_start_method", "save_safetensors",
    "scaling_softmax_bias", "scaling_softmax_factor", "sdp_attention", "sdpa_varlen",
    "shuffle_before_merging_datasets", "shuffle_merged_datasets", "simpo_gamma", "skip_prepare_dataset",
    "streaming_multipack_buffer_size", "strict", "tiled_mlp", "tiled_mlp_num_shards", "tiled_mlp_use_original_mlp",
    "tokenizer_legacy", "tokenizer_save_jinja_files", "tokenizer_type", "tokenizer_use_fast",
    "tokenizer_use_mistral_common", "torch_compile", "torch_compile_backend", "torch_compile_mode",
    "torch_compile_options", "torch_empty_cache_steps", "torchdistx_path", "total_num_tokens",
    "total_supervised_tokens", "trackio_project_name", "trackio_run_name", "trackio_space_id", "trl",
    "type_of_model", "use_kernels", "use_otel_metrics", "use_ray", "vllm", "wandb_entity", "wandb_log_model",
    "wandb_mode", "wandb_name", "wandb_run_id", "wandb_watch", "world_size", "xformers_attention",
    // Of the plugins whose kernels are fused.
    "liger_rope", "liger_rms_norm", "liger_rms_norm_gated", "liger_layer_norm", "liger_swiglu",
    "liger_glu_activation", "liger_cross_entropy", "liger_fused_linear_cross_entropy", "liger_use_token_scaling",
    "cut_cross_entropy",
    NULL};
// clang-format on

const dialect_names AXOLOTL_IGNORED[] = {
    {IGNORED, {.theirs = "", .type = DIALECT_ANY, .effect = EFFECT_NOTHING}},
    {NULL, {.theirs = NULL}}};
