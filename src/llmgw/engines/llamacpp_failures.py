"""llama.cpp's failures in words. Lines as written by the wheel xllamacpp 2026.10 (llama.cpp of October 2026)."""

import re

import msgspec

from llmgw.engines.failure_words import Words, by_signal, by_status, decisive, words
from llmgw.engines.llamacpp_settings import FAILED_MARK, READY_MARK, Failed
from llmgw.schema.report import Death

_ERROR_LINE = re.compile(r"[\d.]+ E (.+)")
"""Time since the start, level, text: `0.00.015.122 E srv load_model: …`."""

_TABLE: tuple[Words, ...] = (
    words(r"failed to open GGUF file '(.+)' \(No such file or directory\)", "No weights at {0} on this node"),
    words(r"failed to open GGUF file '(.+)' \(Permission denied\)", "The agent's user may not read the weights at {0}"),
    words(r"failed to open GGUF file '(.+)' \((.+)\)", "The weights at {0} cannot be opened: {1}"),
    words(
        r"invalid magic characters: 'vers'",
        "The weights file is a Git LFS pointer, not the weights themselves: fetch them with git lfs pull",
        heals=False,
    ),
    words(
        r"invalid magic characters: '(.*)', expected", "The weights file is not GGUF: it begins with '{0}'", heals=False
    ),
    words(r"failed to read magic", "The weights file is empty, or it is a folder", heals=False),
    words(
        r"tensor '(.+)' data is not within the file bounds",
        "The weights file is cut short: tensor {0} lies beyond its end; fetch it again",
        heals=False,
    ),
    words(
        r"gguf_init_from_reader: (failed to read .+)",
        "The weights file is cut short or damaged within its header ({0}); fetch it again",
        heals=False,
    ),
    words(r"gguf_init_from_reader: (.+)", "The header of the weights file is damaged: {0}", heals=False),
    words(
        r"tensor '(.+)' has invalid data", "The weights file is damaged within tensor {0}; fetch it again", heals=False
    ),
    words(
        r"unknown model architecture: '(.*)'",
        "This version of llama.cpp cannot run models of architecture {0}",
        heals=False,
    ),
    words(
        r"error loading model hyperparameters: (.+)",
        "The header of the weights file lacks what llama.cpp needs: {0}",
        heals=False,
    ),
    words(
        r"error loading model vocabulary: (.+)",
        "The tokenizer in the weights file is of no use to llama.cpp: {0}",
        heals=False,
    ),
    words(r"missing tensor '(.+)'", "The weights file lacks tensor {0}", heals=False),
    words(
        r"(wrong number of tensors.*|tensor '.+' has wrong shape.*)", "The weights file is damaged: {0}", heals=False
    ),
    words(r"chat template parsing error", "The chat template is not valid Jinja", heals=False),
    words(r"common_chat_templates_init: error: (.+)", "The chat template is not valid Jinja: {0}", heals=False),
    words(r"failed to load lora adapter '(.+)'", "The LoRA adapter {0} cannot be loaded", heals=False),
    words(r"V cache quantization requires flash_attn", "cache_type_v below f16 needs flash_attn = true", heals=False),
    words(r"n_seq_max must be <= (\d+)", "More slots than llama.cpp's limit of {0}", heals=False),
    words(
        r"(?:failed to allocate buffer for kv cache|failed to initialize the context: std::bad_alloc)",
        "Not enough memory for the context: lower context or slots, or use a node with more memory",
    ),
    words(
        r"(?:unable to allocate \S+ buffer|failed to allocate .*buffer|std::bad_alloc)",
        "Not enough memory for the model",
    ),
    words(r"failed to initialize the context: (.+)", "The context cannot be set up: {0}"),
    words(
        r"couldn't bind HTTP server socket, hostname: (\S+), port: (\d+)",
        "Cannot listen on {0}:{1}: taken by another process, or no address of this node",
    ),
    words(r"(GGML_ASSERT\(.+)", "Stopped at an internal check of llama.cpp: {0}"),
    words(r"error loading model: (.+)", "llama.cpp cannot load the weights: {0}"),
)


def explain(status: int | None, log_text: str) -> Death:
    """Explain an end nobody asked for. What was said before the engine was ready says nothing of a later end."""
    lines = _since_ready(log_text).splitlines()
    return (
        decisive(lines, _TABLE, status)
        or _launcher_words(lines, status)
        or by_signal(status)
        or _first_error(lines, status)
        or by_status(status)
    )


def _since_ready(log_text: str) -> str:
    _, mark, after = log_text.rpartition("\n" + READY_MARK)
    return after if mark else log_text


def _launcher_words(lines: list[str], status: int | None) -> Death | None:
    for line in lines:
        if not line.startswith(FAILED_MARK):
            continue
        try:
            failed = msgspec.json.decode(line.removeprefix(FAILED_MARK), type=Failed)
        except msgspec.DecodeError:
            continue
        if failed.cause is not None:
            return Death(
                status=status,
                asked=False,
                cause=failed.cause,
                heals=failed.interrupted,
                counts=not failed.interrupted,
                log_line=failed.error,
            )
    return None


def _first_error(lines: list[str], status: int | None) -> Death | None:
    for line in lines:
        error = _ERROR_LINE.match(line)
        if error is not None:
            cause = f"Ended with an error llmgw has no words for: {error[1].strip()}"
            return Death(status=status, asked=False, cause=cause, log_line=line.strip())
    return None
