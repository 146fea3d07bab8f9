import pytest

from llmgw.engines.llamacpp_failures import explain

# Lines as llama.cpp writes them, the general ones that come along included.
GENERAL = (
    "0.00.004.368 E llama_model_load: error loading model: llama_model_loader: failed to load model from /m.gguf\n"
    "0.00.004.372 E llama_model_load_from_file_impl: failed to load model\n"
    "0.00.004.698 E srv          init: exiting due to model loading error\n"
    '\nLLMGW-FAILED {"error":"Failed to init server, please check the input params.","cause":null}\n'
)
WARNING = "0.00.002.787 W srv          init: security: no API key is set\n"
READY = '\nLLMGW-READY {"endpoint":"http://127.0.0.1:1","pid":1,"version":"1"}\n'

CASES = (
    ("gguf_init_from_file: failed to open GGUF file '/m.gguf' (Permission denied)", "may not read", True),
    ("gguf_init_from_file: failed to open GGUF file '/m' (Input/output error)", "Input/output error", True),
    ("gguf_init_from_reader: bad value size for key 'a'", "header of the weights file is damaged", False),
    ("llama_model_load: error loading model: missing tensor 'output_norm.weight'", "lacks tensor output_norm", False),
    (
        "llama_model_load: error loading model: error loading model hyperparameters: key not found in model: llama.x",
        "lacks what llama.cpp needs: key not found in model: llama.x",
        False,
    ),
    ("llama_model_load: error loading model: something new", "cannot load the weights: something new", True),
    (
        "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
        "Not enough memory for the context",
        True,
    ),
    ("llama_init_from_model: failed to initialize the context: std::bad_alloc", "memory for the context", True),
    ("llama_init_from_model: V cache quantization requires flash_attn", "flash_attn = true", False),
    ("srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 80", "on 127.0.0.1:80", True),
    ("srv init: init: n_seq_max must be <= 256", "limit of 256", False),
)


@pytest.mark.parametrize(("line", "told", "heals"), CASES)
def test_the_first_decisive_line_is_told_in_words(line, told, heals):
    death = explain(11, f"{WARNING}0.00.004.268 E {line}\n{GENERAL}")
    assert told in death.cause
    assert death.heals is heals
    assert death.log_line.endswith(line)
    assert death.status == 11


def test_what_the_launcher_knows_itself_is_told_and_does_not_heal():
    death = explain(11, '\nLLMGW-FAILED {"error":"x","cause":"No flag of that name"}\n')
    assert (death.cause, death.log_line, death.heals) == ("No flag of that name", "x", False)


def test_an_unknown_error_line_is_quoted():
    death = explain(11, f"{WARNING}0.00.015.122 E srv load_model: a new kind of error\n")
    assert death.cause.endswith("srv load_model: a new kind of error")


def test_errors_before_the_engine_was_ready_do_not_explain_its_later_end():
    log = f"0.00.001.000 E gguf_init_from_reader: failed to read magic\n{READY}0.00.9.0 W quiet\n"
    assert "SIGKILL" in explain(-9, log).cause
    assert "with status 0" in explain(0, log).cause


def test_a_failed_check_after_ready_is_told_although_the_status_is_a_signal():
    log = f"{READY}/src/ggml.c:12: GGML_ASSERT(n > 0) failed\n"
    assert explain(-6, log).cause == "Stopped at an internal check of llama.cpp: GGML_ASSERT(n > 0) failed"


def test_a_signal_comes_before_error_lines_nobody_knows():
    assert "SIGKILL" in explain(-9, f"{READY}0.00.015.122 E srv operator(): some request failed\n").cause


def test_an_adopted_engines_end_says_that_its_status_cannot_be_seen():
    assert "cannot be seen" in explain(None, READY).cause


def test_a_cut_line_of_the_launcher_is_passed_over():
    assert "status 11" in explain(11, "\nLLMGW-FAILED {").cause
