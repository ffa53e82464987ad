// llamafactory_names.c -- the keys of LLaMA-Factory's files that have no row of their own in llamafactory.c: keys that no
// result depends on or that another key turns on, keys of its other commands, which train reads and does not use, and
// keys that are refused. dialect.c finds them by their names. See llamafactory.h.
#include "config/dialect/tuning/llamafactory.h"

// clang-format off
static const char *const IGNORED[] = {
    // Model, data and training.
    "cache_dir", "use_fast_tokenizer", "init_special_tokens", "low_cpu_mem_usage", "use_reentrant_gc", "infer_backend",
    "offload_folder", "use_kv_cache", "use_v1_kernels", "infer_dtype", "hf_hub_token", "ms_hub_token", "om_hub_token",
    "print_param_status", "quantization_device_map", "compute_dtype", "device_map", "model_max_length", "block_diag_attn",
    "media_dir", "buffer_size", "overwrite_cache", "preprocessing_batch_size", "preprocessing_num_workers",
    "eval_num_beams", "data_shared_file_system", "kt_cpu_activation", "kt_weight_path", "kt_non_expert_weight_path",
    "kt_expert_checkpoint_path", "kt_use_lora_experts", "kt_lora_expert_num", "kt_lora_expert_intermediate_size",
    "kt_config", "loraplus_lr_embedding", "pissa_iter", "pissa_convert", "module_dropout", "oft_rank",
    "oft_block_size", "oft_target", "simpo_gamma", "galore_target", "galore_rank", "galore_update_interval",
    "galore_scale", "galore_proj_type", "galore_layerwise", "apollo_target", "apollo_rank", "apollo_update_interval",
    "apollo_scale", "apollo_proj", "apollo_proj_type", "apollo_scale_type", "apollo_layerwise", "apollo_scale_front",
    "badam_mode", "badam_start_block", "badam_switch_mode", "badam_switch_interval", "badam_update_ratio",
    "badam_mask_mode", "badam_verbose", "swanlab_project", "swanlab_workspace", "swanlab_run_name", "swanlab_mode",
    "swanlab_api_key", "swanlab_logdir", "swanlab_lark_webhook_url", "swanlab_lark_secret", "megatron_bridge_args",
    "hyper_parallel_args", "hyper_parallel_cp_size", "asft_alpha", "eaft_alpha", "freeze_vision_tower",
    "freeze_multi_modal_projector", "compute_accuracy", "plot_loss", "include_effective_tokens_per_second",
    "ray_num_workers", "ray_init_kwargs", "master_addr", "master_port", "ray_run_name", "ray_storage_path",
    "resources_per_worker", "placement_strategy", "fp8_backend", "fp8_enable_fsdp_float8_all_gather",
    "profiler_output_dir", "profiler_wait_steps", "profiler_warmup_steps", "profiler_active_steps", "profiler_repeat",
    "profiler_record_shapes", "profiler_profile_memory", "profiler_with_stack", "profile_modules",
    "sortish_sampler", "generation_max_length", "generation_num_beams", "generation_config",
    // Images and sounds.
    "image_max_pixels", "image_min_pixels", "image_do_pan_and_scan", "crop_to_patches", "video_max_pixels",
    "video_min_pixels", "video_fps", "video_maxlen", "use_audio_in_video", "audio_sampling_rate",
    // Export, generation and serving.
    "export_dir", "export_size", "export_device", "export_quantization_bit", "export_quantization_dataset",
    "export_quantization_nsamples", "export_quantization_maxlen", "export_legacy_format", "export_hub_model_id",
    "vllm_maxlen", "vllm_gpu_util", "vllm_enforce_eager", "vllm_max_lora_rank", "vllm_config", "sglang_maxlen",
    "sglang_mem_fraction", "sglang_tp_size", "sglang_config", "sglang_lora_backend", "do_sample", "temperature",
    "top_p", "top_k", "num_beams", "max_length", "max_new_tokens", "repetition_penalty", "length_penalty",
    "skip_special_tokens", "ppo_buffer_size", "ppo_epochs", "ppo_score_norm", "ppo_target", "ppo_whiten_rewards",
    "reward_model_adapters", "reward_model_quantization_bit", "reward_model_type", "reward_model",
    NULL};
// clang-format on

const dialect_names LLAMAFACTORY_NAMES[] = {
    {IGNORED, {.theirs = "", .type = DIALECT_ANY, .effect = EFFECT_NOTHING}},
    {NULL, {.theirs = NULL}}};
