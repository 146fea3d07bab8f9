import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.peer_records import BadRecords, PeerLoad, pack_load, unpack_load

ids = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=1, max_size=12)


@given(st.integers(0, 2**64 - 1), st.dictionaries(ids, st.integers(1, 2**32 - 1)))
def test_what_is_told_is_what_is_heard(sequence, in_flight):
    load = PeerLoad(sequence=sequence, in_flight=in_flight)
    frame = pack_load(load)
    assert unpack_load(frame) == load
    assert len(frame) == 13 + 16 * len(in_flight)


def test_no_load_takes_no_room_and_a_name_that_is_too_long_is_left_out():
    frame = pack_load(PeerLoad(sequence=1, in_flight={"r1": 0, "rabcdefghij": 2, "a-name-of-a-gateway-alone-1": 3}))
    assert unpack_load(frame) == PeerLoad(sequence=1, in_flight={"rabcdefghij": 2})


def test_frames_of_kinds_to_come_are_passed_over():
    assert unpack_load(b"\x02" + bytes(12) + b"whatever") is None


@pytest.mark.parametrize("cut", [1, 12, 14, 28])
def test_a_frame_that_is_cut_is_refused(cut):
    with pytest.raises(BadRecords):
        unpack_load(pack_load(PeerLoad(sequence=1, in_flight={"r1": 1}))[:cut])


def test_an_id_that_is_no_text_is_refused():
    frame = bytearray(pack_load(PeerLoad(sequence=1, in_flight={"r1": 1})))
    frame[13] = 0xFF
    with pytest.raises(BadRecords, match="not text"):
        unpack_load(bytes(frame))
