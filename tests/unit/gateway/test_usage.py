import json

from llmgw.gateway.usage import UsageMeter


def read(*usages, per_choice: bool) -> UsageMeter:
    meter = UsageMeter()
    meter.begin(per_choice=per_choice)
    for usage in usages:
        meter.read(json.dumps({"usage": usage}).encode())
    return meter


def usage(prompt, completion, cached=0):
    details = {"cached_tokens": cached, "audio_tokens": 0}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}


def test_frames_per_choice_add_up_and_the_prompt_counts_once():
    meter = read(usage(7, 2, 3), usage(7, 5, 3), per_choice=True)
    assert (meter.prompt, meter.cached, meter.completion) == (7, 3, 7)


def test_later_frames_replace_earlier_ones():
    meter = read(usage(7, 2), usage(7, 5, 4), per_choice=False)
    assert (meter.prompt, meter.cached, meter.completion) == (7, 4, 5)


def test_nonsense_tells_nothing():
    meter = UsageMeter()
    for answer in (b"", b"[]", b'{"usage":null}', b'{"usage":{"prompt_tokens":"x"}}'):
        meter.read(answer)
    assert not meter.known


def test_another_try_starts_over():
    meter = read(usage(7, 2), per_choice=True)
    meter.begin(per_choice=True)
    assert (meter.known, meter.completion) == (False, 0)
