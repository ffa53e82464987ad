// causes_software.c -- causes of failed runs: libraries, packages and builds. See cause.h.
#include "diagnose/tables.h"

static const diagnose_cause ROWS[] = {
    {
        .code = "extension-build",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"rror building extension", "building extension '(?<name>\\w+)'"},
                    {"build stopped: subcommand failed", NULL},
                    {"'ninja', '-v'", NULL},
                    {"CUDA_HOME environment variable is not set", NULL},
                    {"CUDA_HOME does not exist", NULL},
                    {"inja is required to load C++ extensions", NULL},
                    {"nsupported GNU version", NULL},
                    {"fatal error:", "^\\S*(?:cc1plus|\\.cuh?|\\.cpp|\\.h)\\S*: fatal error: "
                                     "(?<missing>\\S+): No such file"}},
        .sentence = "an extension[, {name},] could not be built[: {missing} is missing]",
        .why = "nvcc is missing or has another CUDA version than PyTorch, gcc is too new for it, "
               "or headers are missing.",
        .remedy = {"$ nvcc --version; python3 -c 'import torch; print(torch.version.cuda)'",
                   "Install the CUDA toolkit of that version and set CUDA_HOME",
                   "$ ds_report # for ops of DeepSpeed; or build them once: DS_BUILD_OPS=1"},
        .check = {0},
    },
    {
        .code = "cuda-versions-differ",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern =
            {{"mismatches the version that was used to compile",
              "CUDA version \\((?<have>[\\d.]+)\\) mismatches .*PyTorch \\((?<want>[\\d.]+)\\)"},
             {"does not match the version torch was compiled with",
              "version (?<have>[\\d.]+) does not match .*compiled with (?<want>[\\d.]+)"},
             {"CUDAMismatchException", NULL},
             {"MissingCUDAException", NULL}},
        .sentence = "the CUDA toolkit[ ({have})] is not of the version that PyTorch was built "
                    "with[ ({want})]",
        .remedy = {"Install the toolkit of that version and set CUDA_HOME, or another PyTorch",
                   "For DeepSpeed, DS_SKIP_CUDA_CHECK=1 accepts another minor version"},
        .check = {"cuda-versions-mixed", "torch-cuda-mixed"},
    },
    {
        .code = "undefined-symbol",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"undefined symbol", "(?:(?<file>[\\w.+-]+\\.so[\\w.]*): )?undefined symbol: "
                                         "(?<symbol>\\w+)"},
                    {"symbol lookup error", NULL},
                    {"DLL load failed", NULL}},
        .sentence = "a library[, {file},] was built for another version of PyTorch or CUDA[: it "
                    "wants {symbol}]",
        .remedy = {"Build or install it anew for the PyTorch that is there: pip install "
                   "--no-cache-dir --force-reinstall --no-build-isolation NAME",
                   "Unset LD_LIBRARY_PATH, which may bring an older libnvJitLink or NCCL"},
        .check = {"gpu-libraries"},
    },
    {
        .code = "library-missing",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"cannot open shared object file",
                     "^(?!.*NCCL INFO)(?!.*(?:[Ww]arn|W tensorflow|dso_loader|NET/Plugin)).*?"
                     "(?<file>lib[\\w.+-]+): cannot open shared object"},
                    {"' not found (required by", "version `(?<file>[\\w.]+)' not found"},
                    {"ibrary not found",
                     "(?i)(?:OSError|ImportError|RuntimeError): .*library not found"},
                    {"annot load library", NULL}},
        .sentence = "a library is missing or too old[: {file}]",
        .remedy = {"$ ldd FILE | grep 'not found'",
                   "Install the package that has it, or add its folder to LD_LIBRARY_PATH on "
                   "every host"},
        .check = {"gpu-libraries"},
    },
    {
        .code = "module-missing",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"ModuleNotFoundError", "No module named '?(?<name>[\\w.-]+)"},
                    {"No module named",
                     "(?:Error|python\\S*): No module named '?(?<name>[\\w.-]+)"},
                    {"PackageNotFoundError", "PackageNotFoundError: (?<name>.*)"},
                    {"not installed",
                     "(?:ImportError|RuntimeError|ValueError).*?(?<name>[\\w-]+)`? "
                     "(?:package )?(?:is |seems to be |could )?not installed"},
                    {"equires the following packages", NULL},
                    {"but it was not found in your environment", "requires the (?<name>[\\w-]+)"}},
        .sentence = "a package of Python is missing[: {name}]",
        .remedy = {"$ python3 -m pip install NAME # in the environment of the ranks, on every host",
                   "$ which python3 # launchers may start another one"},
        .check = {"python-missing"},
    },
    {
        .code = "package-version",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"cannot import name", "cannot import name '(?<name>\\w+)' from "
                                           "'(?<package>[\\w.]+)'"},
                    {"is required for a normal functioning",
                     "(?<package>[\\w-]+)[<>=]+\\S* is required for a normal"},
                    {"has no attribute", "module '(?<package>[\\w.]+)' has no attribute "
                                         "'(?<name>\\w+)'"},
                    {"umpy.core.multiarray failed to import", NULL},
                    {"umpy.dtype size changed", NULL},
                    {"got an unexpected keyword argument",
                     "TypeError: (?<package>[\\w.]+)\\(\\) got an unexpected keyword argument "
                     "'(?<name>\\w+)'"},
                    {"ersion conflict", "(?i)VersionConflict|version conflict"}},
        .sentence = "two packages of Python do not fit together[: {package}][ lacks or refuses "
                    "{name}]",
        .remedy = {"Install the versions that the program lists (requirements.txt), in a new "
                   "environment",
                   "$ python3 -m pip check"},
        .check = {0},
    },
    {
        .code = "flash-attention",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"lashAttention only support", "FlashAttention only supports? (?<what>.*)"},
                    {"lash Attention 2.0 only supports", NULL},
                    {"lashAttention2 has been toggled on, but it cannot be used", NULL},
                    {"o available kernel. Aborting execution", NULL}},
        .sentence = "FlashAttention does not work here[: it supports {what} only]",
        .remedy = {"Take attn_implementation=\"sdpa\", or bf16 on a GPU of Ampere or later"},
        .check = {0},
    },
    {
        .code = "triton-build",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"PassManager::run failed", NULL},
                    {"OutOfResources",
                     "out of resource: (?<what>[\\w ]+), Required: (?<want>\\d+), "
                     "Hardware limit: (?<have>\\d+)"},
                    {"triton.compiler.errors.CompilationError", NULL},
                    {"Failed to find C compiler", NULL},
                    {"BackendCompilerFailed", NULL},
                    {"nternal Triton PTX codegen error", NULL}},
        .sentence = "Triton or torch.compile could not build a kernel[: {what} {want} wanted, "
                    "{have} there]",
        .remedy = {"Install gcc and the Python headers on every host",
                   "Try without torch.compile; clear ~/.triton/cache",
                   "Update Triton with PyTorch"},
        .check = {0},
    },
};

const diagnose_table DIAGNOSE_SOFTWARE = {ROWS, sizeof ROWS / sizeof *ROWS};
