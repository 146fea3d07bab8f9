"""What passes over the wire in the micro-benchmarks: one request, its plain and its streamed answer."""

import json

KEY = "lk_benchmrk_0000000000000000"
CHUNKS, STEP_S = 200, 0.02
"""Chunks of a streamed answer, and seconds between two."""

_MESSAGES = [{"role": "user", "content": "word " * 400}]
_REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: OpenAI/Python 2.1.0\r\n"
    b"Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer %b\r\nX-Stainless-Lang: python\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%b"
)
STREAMED = b'"stream": true'


def request(*, stream: bool) -> bytes:
    """Give a chat request of about 2 KB as an OpenAI client sends it."""
    body = json.dumps({"model": "mock", "messages": _MESSAGES, "stream": stream}).encode()
    return _REQUEST % (KEY.encode(), len(body), body)


_WHOLE = (
    b'{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"content":"'
    + b"w" * 300
    + b'"}}],"usage":{"prompt_tokens":400,"completion_tokens":16,"total_tokens":416}}'
)
PLAIN_END = _WHOLE[-16:]
PLAIN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: x\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_WHOLE),
    _WHOLE,
)


def _chunk(*events: bytes) -> bytes:
    data = b"".join(b"data: %b\n\n" % event for event in events)
    return b"%x\r\n%b\r\n" % (len(data), data)


_BEGIN = b'{"id":"x","object":"chat.completion.chunk","choices":'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = _chunk(_BEGIN + b'[{"index":0,"finish_reason":null,"delta":{"content":"' + b"w" * 90 + b'"}}]}')
STREAM_TAIL = (
    _chunk(
        _BEGIN + b'[{"index":0,"finish_reason":"stop","delta":{}}]}',
        _BEGIN + b'[],"usage":{"prompt_tokens":400,"completion_tokens":200,"total_tokens":600}}',
        b"[DONE]",
    )
    + b"0\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"
