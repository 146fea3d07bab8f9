import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.prefix import chain_of, packed, unpacked
from llmgw.gateway.peer_records import BadRecords, PeerLoad, pack_load, pack_placed, unpack
from llmgw.gateway.worker_link import Placed

ids = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=1, max_size=12)
counts = st.integers(1, 2**32 - 1)


@given(st.integers(0, 2**64 - 1), st.dictionaries(ids, st.tuples(counts, counts)))
def test_what_is_told_is_what_is_heard(sequence, at):
    load = PeerLoad(
        sequence=sequence,
        in_flight={name: requests for name, (requests, _) in at.items()},
        queued={name: queued for name, (_, queued) in at.items()},
    )
    frame = pack_load(load)
    assert unpack(frame) == load
    assert len(frame) == 13 + 20 * len(at)


@given(ids, st.binary(max_size=20_000))
def test_a_placement_is_heard_as_it_was_told_and_holds_no_text(replica, prompt):
    chain = chain_of(prompt, salt=1)
    frame = pack_placed(Placed(replica=replica, chain=packed(chain)))
    heard = unpack(frame)
    assert (heard.replica, unpacked(heard.chain)) == (replica, chain)
    assert len(frame) == 13 + 12 + 8 * (len(prompt) // 256)


def test_no_load_takes_no_room_and_a_name_that_is_too_long_is_left_out():
    frame = pack_load(PeerLoad(sequence=1, in_flight={"r1": 0, "rabcdefghij": 2, "a-name-of-a-gateway-alone-1": 3}))
    assert unpack(frame) == PeerLoad(sequence=1, in_flight={"rabcdefghij": 2})
    assert pack_placed(Placed(replica="a-name-of-a-gateway-alone-1", chain=b"")) is None


def test_frames_of_kinds_to_come_are_passed_over():
    assert unpack(b"\x09" + bytes(12) + b"whatever") is None


@pytest.mark.parametrize("cut", [1, 12, 14, 28])
def test_a_frame_that_is_cut_is_refused(cut):
    with pytest.raises(BadRecords):
        unpack(pack_load(PeerLoad(sequence=1, in_flight={"r1": 1}))[:cut])
    with pytest.raises(BadRecords):
        unpack(pack_placed(Placed(replica="r1", chain=bytes(16)))[:cut])


@pytest.mark.parametrize(
    "frame",
    [pack_load(PeerLoad(sequence=1, in_flight={"r1": 1})), pack_placed(Placed(replica="r1", chain=bytes(8)))],
    ids=["load", "placed"],
)
def test_an_id_that_is_no_text_is_refused(frame):
    broken = bytearray(frame)
    broken[13] = 0xFF
    with pytest.raises(BadRecords, match="not text"):
        unpack(bytes(broken))
