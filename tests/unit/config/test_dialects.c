// test_dialects.c -- what configurations of other systems refuse in one line that names file, line and key: sizes whose
// product or sum no machine has, among others. A sanitizer of undefined behaviour sees that none of them overflows.
#include "job_fixture.h"

#define MOST "9223372036854775807"

// Lays `theirs`, a file of a system, over the small job, and compares the error line.
static void refused(const char *system, const char *theirs, const char *args, const char *line)
{
    char all[512];
    put_file("theirs", theirs);
    snprintf(all, sizeof all, "--%s|theirs|%s", system, args);
    assert_refused(SMALL, all, line);
}

static void products_of_sizes_do_not_overflow(void **state)
{
    (void)state;
#define SIZE(axis) "  parallelism_config_" axis "_size: "
    static const char FSDP[] = "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n"
                               "parallelism_config:\n" SIZE("dp_shard") MOST "\n" SIZE("tp") "2\n";
    refused("accelerate", FSDP, "",
            "theirs:3: parallelism_config: found parallelism_config_dp_shard_size " MOST
            " x parallelism_config_tp_size 2; valid: sizes whose product is at most 16384");
    // The row of a size that is none refuses it.
    refused("accelerate",
            "distributed_type: FSDP\nparallelism_config:\n" SIZE("dp_shard") "-" MOST "\n" SIZE(
                "tp") "4\n" SIZE("cp") MOST "\n",
            "",
            "theirs:2: parallelism_config: found parallelism_config_tp_size 4 x "
            "parallelism_config_cp_size " MOST "; valid: sizes whose product is at most 16384");
    refused("accelerate",
            "distributed_type: FSDP\nparallelism_config:\n" SIZE("dp_shard") "-" MOST
                                                                             "\n" SIZE("tp") "4\n",
            "",
            "theirs:3: parallelism_config.parallelism_config_dp_shard_size: found -" MOST
            "; valid: a whole number from 1");
#undef SIZE
}

static void arguments_of_megatron_do_not_overflow(void **state)
{
    (void)state;
    refused("megatron",
            "torchrun --nproc_per_node 2147483647 --nnodes 2147483646 p.py "
            "--micro-batch-size " MOST " --train-samples 9 --lr 1",
            "", "theirs:1: --train-samples: found 9 without --global-batch-size; valid: with it");
    refused("megatron",
            "--num-layers 2\n--pipeline-model-parallel-size 2\n"
            "--decoder-first-pipeline-num-layers " MOST "\n"
            "--decoder-last-pipeline-num-layers " MOST,
            "",
            "theirs:3: --decoder-first-pipeline-num-layers: found stages whose layers do not add "
            "up to the 2 of the model");
    refused("megatron", "--hidden-size " MOST, "",
            "theirs:1: --hidden-size: found " MOST "; valid: at most 268435456");
    refused("megatron", "--ddp-bucket-size " MOST, "",
            "theirs:1: --ddp-bucket-size: parallel.bucket_bytes: found 9223372036854775804; valid: "
            "a whole number from 1 to 1152921504606846976");
}

static void a_default_batch_names_the_key_that_it_does_not_fit(void **state)
{
    (void)state;
    refused(
        "deepspeed",
        "{'gradient_accumulation_steps': 'auto',\n 'train_micro_batch_size_per_gpu': 3}",
        "--launch.ranks|2",
        "theirs:2: train_micro_batch_size_per_gpu: train.global_batch: found 64, not a multiple "
        "of 2 ranks x micro_batch 3 = 6; nearest valid: 60 and 66; valid train.micro_batch for "
        "64: 1, 2, 4, 8, 16, 32, 64" BATCH_RULE);
    refused(
        "accelerate", "distributed_type: MULTI_CPU\nnum_processes: 3\n", "",
        "theirs:2: num_processes: train.global_batch: found 64, not a multiple of 3 ranks; "
        "nearest valid: 63 and 66; valid launch.ranks for 64: 1, 2, 4, 8, 16, 32, 64" BATCH_RULE);
    // InstructLab's default is no key of the file.
    refused("instructlab", "train:\n  device: cpu\n  nproc_per_node: 3\n  max_seq_len: 64\n", "",
            "theirs:3: train.nproc_per_node: train.global_batch: found 64, not a multiple of 3 "
            "ranks; nearest valid: 63 and 66; valid launch.ranks for 64: 1, 2, 4, 8, 16, 32, "
            "64" BATCH_RULE);
    // A batch that is given is named itself.
    refused("deepspeed", "{'train_batch_size': 3,\n 'train_micro_batch_size_per_gpu': 2}",
            "--launch.ranks|1",
            "theirs:1: train_batch_size: train.global_batch: found 3, not a multiple of 1 rank x "
            "micro_batch 2 = 2; nearest valid: 2 and 4; valid train.micro_batch for 3: 1, "
            "3" BATCH_RULE);
    refused("accelerate",
            "distributed_type: MULTI_CPU\nparallelism_config:\n"
            "  parallelism_config_tp_size: 3\n",
            "--launch.ranks|2",
            "--launch.ranks: found 2, not a multiple of tp 3; nearest valid: 3");
}

static void items_of_a_list_read_back(void **state)
{
    (void)state;
    refused("torch", "optimizer: {type: AdamW, betas: [!!int , 0.95]}", "",
            "theirs:1: optimizer.betas: optimizer.betas: found [null, 0.95]; valid: two numbers "
            "from 0 to "
            "below 1, as [0.9, 0.95]");
    refused("torch", "optimizer: {type: AdamW, betas: ['a, b', {x: 1, x: 3}]}", "",
            "theirs:1: optimizer.betas: optimizer.betas: found [\"a, b\", {x: 1, x: 3}]; valid: "
            "two numbers from 0 to "
            "below 1, as [0.9, 0.95]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_sizes_do_not_overflow),
        cmocka_unit_test(arguments_of_megatron_do_not_overflow),
        cmocka_unit_test(items_of_a_list_read_back),
        cmocka_unit_test(a_default_batch_names_the_key_that_it_does_not_fit),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
