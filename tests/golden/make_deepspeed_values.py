#!/usr/bin/env python3
"""Writes deepspeed_values.json: small configurations and the value of each key as DeepSpeed's own parser has it.

    python3 make_deepspeed_values.py [FILE ...]        needs deepspeed 0.19.6, of which no op is built

Each key alone, pairs, and random combinations by a fixed seed. A record has the configuration, the values that differ from
"defaults", and for some numbers of ranks the solved batch, micro-batch and accumulation (null: DeepSpeed refuses it).
"refused" says that DeepSpeed refuses the configuration for every number of ranks. With FILEs it prints the records of
these files instead, which need not be committed.
"""
import json
import logging
import os
import random
import sys

os.environ.setdefault("DS_BUILD_OPS", "0")
logging.disable(logging.CRITICAL)

import hjson
import torch
from deepspeed import comm
from deepspeed.runtime import config as ds
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys

WORLDS = [1, 2, 3, 8]
ZERO, ADAM = "zero_optimization", "optimizer.params"
# Valid values of keys that do not stand in the way of each other.
KEYS = {
    "gradient_clipping": [0, 0.5, 2.0, 1e-1], "steps_per_print": [1, 10, 2000], "prescale_gradients": [True, False],
    "gradient_predivide_factor": [1.0, 2.0], "gradient_allreduce_op": ["mean", "MEAN"],
    "communication_data_type": ["fp32", "bf16", "FP16"], "seq_parallel_communication_data_type": ["fp32", "bf16"],
    "disable_allgather": [True], "dump_state": [True], "wall_clock_breakdown": [True],
    "memory_breakdown": [True], "dataloader_drop_last": [True], "log_level": ["info", "debug"],
    "managed_gradient_accumulation": [False], "zero_allow_untested_optimizer": [True],
    "zero_force_ds_cpu_optimizer": [False], "use_data_before_expert_parallelism": [True], "graph_harvesting": [True],
    "sparse_gradients": [True],
    "fp16.enabled": [True, "true", 1], "fp16.auto_cast": [True], "fp16.loss_scale": [0, 128, 1024.0, "0"],
    "fp16.initial_scale_power": [12, 32, "16", 8.0], "fp16.loss_scale_window": [100, 2000.0, "500"],
    "fp16.hysteresis": [1, 4], "fp16.consecutive_hysteresis": [True], "fp16.min_loss_scale": [1, 8],
    "bf16.enabled": [True, "yes", False], "bf16.immediate_grad_update": [True], "bf16.check_grad_overflow": [False],
    "torch_autocast.enabled": [True], "torch_autocast.dtype": ["bfloat16", "float16"],
    "data_types.grad_accum_dtype": ["fp32", "bf16"], "data_types.buffer_dtype": ["fp32"],
    ZERO + ".stage": [0, 1, 2, 3], ZERO + ".contiguous_gradients": [False, "false"], ZERO + ".reduce_scatter": [False],
    ZERO + ".reduce_bucket_size": [5e8, 1, 200000000, "50000000"], ZERO + ".use_multi_rank_bucket_allreduce": [False],
    ZERO + ".allgather_partitions": [False], ZERO + ".allgather_bucket_size": [2e8, 0], ZERO + ".overlap_comm": [True, False],
    ZERO + ".load_from_fp32_weights": [False], ZERO + ".elastic_checkpoint": [True], ZERO + ".sub_group_size": [1e9, 1e12],
    ZERO + ".stage3_prefetch_bucket_size": [5e7, 0, 123], ZERO + ".prefetch_bucket_size": [77],
    ZERO + ".stage3_param_persistence_threshold": [1e4, 0], ZERO + ".param_persistence_threshold": [10],
    ZERO + ".stage3_model_persistence_threshold": [1000], ZERO + ".stage3_max_live_parameters": [3e7],
    ZERO + ".max_live_parameters": [4], ZERO + ".stage3_max_reuse_distance": [3e7],
    ZERO + ".stage3_gather_16bit_weights_on_model_save": [True], ZERO + ".stage3_gather_fp16_weights_on_model_save": [True],
    ZERO + ".stage3_module_granularity_threshold": [100], ZERO + ".stage3_use_all_reduce_for_fetch_params": [True],
    ZERO + ".stage3_allgather_sequential": [True], ZERO + ".ignore_unused_parameters": [False],
    ZERO + ".legacy_stage1": [True], ZERO + ".round_robin_gradients": [True], ZERO + ".zero_hpz_partition_size": [1, 4],
    ZERO + ".zero_quantized_weights": [True], ZERO + ".zero_quantized_gradients": [True],
    ZERO + ".zero_quantized_nontrainable_weights": [True], ZERO + ".mics_hierarchical_params_gather": [True],
    ZERO + ".memory_efficient_linear": [False], ZERO + ".pipeline_loading_checkpoint": [True],
    ZERO + ".override_module_apply": [False], ZERO + ".log_trace_cache_warnings": [True],
    ZERO + ".enable_sanity_checks": [True], ZERO + ".cpu_offload": [True, False],
    ZERO + ".offload_param.device": ["cpu", "none"], ZERO + ".offload_param.buffer_count": [8, 1],
    ZERO + ".offload_param.buffer_size": [1e8, 12], ZERO + ".offload_param.max_in_cpu": [0, 1e9],
    ZERO + ".offload_param.pin_memory": [False], ZERO + ".offload_param.nvme_path": ["/nvme0"],
    ZERO + ".offload_optimizer.device": ["cpu", "none"], ZERO + ".offload_optimizer.buffer_count": [5],
    ZERO + ".offload_optimizer.pin_memory": [False], ZERO + ".offload_optimizer.pipeline_read": [True],
    ZERO + ".offload_optimizer.pipeline_write": [True], ZERO + ".offload_optimizer.fast_init": [True],
    ZERO + ".offload_optimizer.super_offload": [True], ZERO + ".offload_optimizer.cpuadam_cores_perc": [0.5],
    ZERO + ".offload_optimizer.nvme_path": ["/nvme1"],
    "aio.block_size": [1048576, 262144], "aio.queue_depth": [16], "aio.intra_op_parallelism": [4], "aio.thread_count": [2],
    "aio.single_submit": [True], "aio.overlap_events": [False],
    "optimizer.type": ["Adam", "AdamW", "adamw", "Lion", "SGD"], "optimizer.legacy_fusion": [True], ADAM + ".lr": [1e-3, 3e-5],
    ADAM + ".betas": [[0.8, 0.999], [0.9, 0.95]], ADAM + ".eps": [1e-8, 1e-6], ADAM + ".weight_decay": [0, 0.01, 3e-7],
    ADAM + ".torch_adam": [True], ADAM + ".adam_w_mode": [True, False],
    "scheduler.type": ["WarmupLR"], "scheduler.params.warmup_min_lr": [0, 1e-6], "scheduler.params.warmup_max_lr": [0.001],
    "scheduler.params.warmup_num_steps": [10, 1000], "scheduler.params.warmup_type": ["linear", "log"],
    "tensor_parallel.autotp_size": [2], "tensor_parallel.tp_overlap_comm": [True],
    "pipeline.stages": [2], "pipeline.partition": ["parameters"], "pipeline.seed_layers": [True],
    "pipeline.activation_checkpoint_interval": [1], "pipeline.pipe_partitioned": [False],
    "pipeline.grad_partitioned": [False],
    "activation_checkpointing.partition_activations": [True], "activation_checkpointing.cpu_checkpointing": [True],
    "activation_checkpointing.contiguous_memory_optimization": [True], "activation_checkpointing.number_checkpoints": [4],
    "activation_checkpointing.synchronize_checkpoint_boundary": [True], "activation_checkpointing.profile": [True],
    "checkpoint.tag_validation": ["Ignore", "FAIL"], "checkpoint.load_universal": [True],
    "checkpoint.use_node_local_storage": [True], "checkpoint.parallel_write.pipeline_stage": [True],
    "flops_profiler.enabled": [True], "flops_profiler.recompute_fwd_factor": [1.0], "flops_profiler.profile_step": [5],
    "flops_profiler.module_depth": [2], "flops_profiler.top_modules": [3], "flops_profiler.detailed": [False],
    "flops_profiler.output_file": ["flops.txt"],
    "comms_logger.enabled": [True], "comms_logger.verbose": [True], "comms_logger.prof_all": [False],
    "comms_logger.debug": [True], "comms_logger.prof_ops": [["all_reduce"]],
    "tensorboard.output_path": ["logs"], "tensorboard.job_name": ["j"], "csv_monitor.output_path": ["csv"],
    "csv_monitor.job_name": ["k"], "wandb.group": ["g"], "wandb.team": ["t"], "wandb.project": ["p"],
    "comet.samples_log_interval": [10], "comet.mode": ["get"], "timers.throughput.enabled": [False],
    "timers.throughput.synchronized": [False], "hybrid_engine.max_out_tokens": [64], "hybrid_engine.pin_parameters": [False],
    "hybrid_engine.inference_tp_size": [2], "compile.deepcompile": [True],
}
# Configurations that DeepSpeed refuses, beside a batch.
WRONG = [
    {"fp16": {"enabled": True}, "bf16": {"enabled": True}}, {"fp16": {"enable": True}}, {"bf16": {"loss_scale": 0}},
    {"bf16": {"enabled": "maybe"}}, {"fp16": {"hysteresis": 1.5}}, {"fp16": {"hysteresis": "x"}},
    {"fp16": {"loss_scale": -1}}, {"fp16": {"enabled": True, "loss_scale_window": 0}},
    {ZERO: {"stage": 4}}, {ZERO: {"stage": "two"}}, {ZERO: {"reduce_bucket_size": 0}}, {ZERO: {"reduce_bucket_size": 0.5}},
    {ZERO: {"aio": {"block_size": 1}}}, {ZERO: {"offload_optimizer": True}}, {ZERO: {"offload_param": {"device": "gpu"}}},
    {ZERO: {"offload_param": {"buffer_count": -1}}}, {ZERO: {"sub_group_size": -1}}, {ZERO: {"zero_hpz_partition_size": -1}},
    {ZERO: {"offload_optimizer": {"ratio": 1.5}}}, {ZERO: {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.3}}},
    {ZERO: {"stage": 3, "cpu_offload": True, "offload_optimizer": {"device": "cpu"}}},
    {ZERO: {"cpu_offload": False, "offload_optimizer": {"device": "cpu"}}}, {ZERO: {"reduce_bucket_size": "5e7"}},
    {ZERO: {"prefetch_bucket_size": 7, "stage3_prefetch_bucket_size": 7}}, {"gradient_accumulation_steps": "8"},
    {ZERO: {"contiguous_gradient": True}}, {"communication_data_type": "int8"}, {"gradient_allreduce_op": "max"},
    {"gradient_allreduce_op": "sum", ZERO: {"stage": 3}}, {"checkpoint": {"tag_validation": "never"}},
    {"tensorboard": {"enable": True}}, {"csv_monitor": {"output": "x"}}, {"wandb": {"projects": "x"}},
    {"comms_logger": {"enabled": "x"}}, {"tensor_parallel": {"auto_tp_size": 2}}, {"hybrid_engine": {"on": True}},
    {"timers": {"throughput": {"enable": True}}}, {"bfloat16": {"enabled": True}, "fp16": {"enabled": True}},
    {"elasticity": {"enabled": True, "max_train_batch_size": 100, "micro_batch_sizes": [2]}},
]
BATCHES = [
    {"train_batch_size": 16}, {"train_batch_size": 20, "train_micro_batch_size_per_gpu": 3},
    {"train_batch_size": 48, "train_micro_batch_size_per_gpu": 2}, {"train_batch_size": 48, "gradient_accumulation_steps": 2},
    {"train_micro_batch_size_per_gpu": 4}, {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3},
    {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 1},
    {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2},
    {"train_batch_size": 7}, {"train_batch_size": 16, "gradient_accumulation_steps": 4},
    {"train_micro_batch_size_per_gpu": 1},
]
OLD = [{ZERO: True}, {ZERO: False}, {"bfloat16": {"enabled": True}}, {ZERO: {"stage": 2, "cpu_offload": True}},
       {ZERO: {"stage": "auto", "overlap_comm": "auto", "reduce_bucket_size": "auto"}}, {ZERO: {}},
       {ZERO: {"stage": 3, "cpu_offload_param": True}}, {"fp16": {"enabled": "auto", "loss_scale_window": "auto"}},
       {"unknown": 1, "_comment": "x"}]
ELASTIC = [
    {"max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6], "version": 0.1},
    {"max_train_batch_size": 100, "micro_batch_sizes": [8, 12, 16, 17], "min_gpus": 2, "max_gpus": 12, "version": 0.1},
    {"max_train_batch_size": 512, "micro_batch_sizes": [4], "prefer_larger_batch": False, "version": 0.1},
    {"max_train_batch_size": 4000, "micro_batch_sizes": [3, 5], "version": 0.2},
    {"max_train_batch_size": 10000, "micro_batch_sizes": [8, 12, 16, 17], "min_gpus": 32, "max_gpus": 1500, "version": 0.1},
    {"max_train_batch_size": 1024, "micro_batch_sizes": [2, 3], "num_gpus_per_node": 4, "model_parallel_size": 2,
     "version": 0.2},
]


def plain(value):
    if isinstance(value, torch.dtype):
        return {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}[value]
    if hasattr(value, "value") and not isinstance(value, (int, str)):
        value = value.value
    if isinstance(value, os.PathLike):
        value = str(value)
    return value.value if hasattr(value, "value") and isinstance(value, (int, str)) else value


def flatten(prefix, value, out):
    """Adds the values of a section by dotted path; lists are values."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, warnings=False)
    if isinstance(value, dict):
        for key, item in value.items():
            flatten(prefix + "." + key if prefix else key, item, out)
    elif value is not None and value != []:
        out[prefix] = plain(value)


TOP = """managed_gradient_accumulation gradient_clipping steps_per_print prescale_gradients gradient_predivide_factor
gradient_allreduce_op communication_data_type seq_parallel_communication_data_type disable_allgather dump_state
memory_breakdown dataloader_drop_last log_level zero_allow_untested_optimizer
zero_force_ds_cpu_optimizer graph_harvesting""".split()
SKIPPED = ("leaf_module", "zenflow", "cpu_offload", "cpu_offload_param", "cpu_offload_use_pin_memory", "mics_shard_size",
           "stage3_gather_fp16_weights_on_model_save", "pipeline")


def values_of(config, given):
    out = {}
    for key in TOP:
        flatten(key, getattr(config, key), out)
    out["sparse_gradients"] = config.sparse_gradients_enabled
    out["use_data_before_expert_parallelism"] = config.use_data_before_expert_parallel_
    out["wall_clock_breakdown"] = bool(given.get("wall_clock_breakdown", False))
    flatten(ZERO, config.zero_config, out)
    flatten("fp16", config.float16_config, out)
    flatten("bf16", config.bfloat16_config, out)
    flatten("aio", config.aio_config, out)
    flatten("optimizer.type", config.optimizer_name, out)
    flatten("optimizer.legacy_fusion", config.optimizer_legacy_fusion, out)
    flatten("optimizer.params", config.optimizer_params, out)
    flatten("scheduler.type", config.scheduler_name, out)
    flatten("scheduler.params", config.scheduler_params, out)
    tp = config.tensor_parallel_config
    out["tensor_parallel.autotp_size"] = tp.autotp_size
    out["tensor_parallel.tp_overlap_comm"] = tp.tp_overlap_comm
    flatten("pipeline", {k: v for k, v in config.pipeline.items() if v != "auto"}, out)
    flatten("activation_checkpointing", vars(config.activation_checkpointing_config), out)
    flatten("flops_profiler", vars(config.flops_profiler_config), out)
    if config.comms_config.comms_logger_enabled:
        flatten("comms_logger", config.comms_config.comms_logger, out)
    for name in ("tensorboard", "csv_monitor", "wandb", "comet"):
        flatten(name, getattr(config.monitor_config, name), out)
    flatten("timers.throughput", config.timers_config, out)
    flatten("hybrid_engine", config.hybrid_engine, out)
    out["compile.deepcompile"] = config.compile_config.deepcompile
    out["checkpoint.load_universal"] = config.load_universal_checkpoint
    out["checkpoint.use_node_local_storage"] = config.use_node_local_storage
    out["checkpoint.parallel_write.pipeline_stage"] = config.checkpoint_parallel_write_pipeline
    out["torch_autocast.enabled"] = config.torch_autocast_enabled
    for name in ("grad_accum_dtype", "buffer_dtype"):
        flatten("data_types." + name, getattr(config, name), out)
    return {k: v for k, v in out.items() if not any(word in SKIPPED for word in k.split(".")[1:])}


def parse(config, world):
    comm.get_world_size = lambda *a, **k: world
    comm.get_rank = lambda *a, **k: 0
    text = json.dumps(config)
    given = json.loads(text, object_pairs_hook=dict_raise_error_on_duplicate_keys)
    return ds.DeepSpeedConfig(given)


def record(config, worlds=()):
    out = {"config": config}
    trusted = worlds or [1]
    out["worlds"] = {}
    for world in trusted:
        try:
            c = parse(config, world)
            out["values"] = values_of(c, config)
            out["worlds"][str(world)] = [c.train_batch_size, c.train_micro_batch_size_per_gpu,
                                         c.gradient_accumulation_steps]
        except Exception as e:
            out["worlds"][str(world)] = None
            out["why"] = (type(e).__name__ + ": " + str(e))[:200]
    if "values" not in out:
        out["refused"] = True
    if not worlds:
        del out["worlds"]
    return out


def put(config, path, value):
    words = path.split(".")
    for word in words[:-1]:
        config = config.setdefault(word, {})
    config[words[-1]] = value


def random_config(rng, count):
    alone = [ZERO + "." + name for name in ("cpu_offload", "prefetch_bucket_size", "param_persistence_threshold",
                                            "max_live_parameters", "stage3_gather_fp16_weights_on_model_save")]
    config, keys = {}, rng.sample([key for key in sorted(KEYS) if key not in alone], count)
    for key in keys:
        put(config, key, rng.choice(KEYS[key]))
    params = config.get("optimizer", {}).get("params")
    if params or "optimizer" in config:
        config["optimizer"].setdefault("type", "AdamW")
        if config["optimizer"]["type"].lower() not in ("adam", "adamw"):
            for key in ("torch_adam", "adam_w_mode", "betas", "eps"):
                config["optimizer"].get("params", {}).pop(key, None)
    if "scheduler" in config:
        config["scheduler"]["type"] = "WarmupLR"
    return config


def all_records():
    rng, small = random.Random(25), {"train_batch_size": 24}
    out = []
    for key in sorted(KEYS):
        config = dict(small)
        put(config, key, rng.choice(KEYS[key]))
        if key.startswith("optimizer.params"):
            config["optimizer"]["type"] = "AdamW"
        if key.startswith("scheduler.params"):
            config["scheduler"]["type"] = "WarmupLR"
        out.append(record(config))
    for i in range(50):
        out.append(record({**small, **random_config(rng, 2)}))
    for i in range(50):
        out.append(record({**small, **random_config(rng, rng.randrange(5, 40))}))
    for config in WRONG + OLD:
        out.append(record({**small, **config}))
    for config in BATCHES:
        out.append(record(config, WORLDS))
    for section in ELASTIC:
        out.append(record({"elasticity": {"enabled": True, **section}}, [4, 36]))
    return out


def main():
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            try:
                with open(name) as file:
                    config = hjson.load(file, object_pairs_hook=dict_raise_error_on_duplicate_keys)
                result = record(config, WORLDS)
            except Exception as e:
                result = {"refused": True, "why": str(e)[:200]}
            print(json.dumps({"file": name, **result}, default=str))
        return
    defaults = values_of(parse({"train_batch_size": 24}, 1), {})
    records = all_records()
    for one in records:
        one.pop("why", None)
        values = one.get("values", {})
        one["values"] = {k: v for k, v in values.items() if k not in defaults or defaults[k] != v}
        if not one["values"]:
            del one["values"]
    with open(os.path.join(os.path.dirname(__file__) or ".", "deepspeed_values.json"), "w") as file:
        file.write('{"defaults": %s,\n"records": [\n' % json.dumps(defaults))
        file.write(",\n".join(json.dumps(one, separators=(",", ":")) for one in records))
        file.write("\n]}\n")


main()
