import pytest

from llmgw.agent.local_state import LocalState
from llmgw.agent.obeyed import Obeyed
from llmgw.agent.orders import Orders, read_log
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.link import LogRequest, Order, OrderRefused, Welcome


class Ear:
    """Stands where the heart is: keeps what is to be said."""

    def __init__(self):
        self.replies = []
        self.beats = 0

    def reply(self, message):
        self.replies.append(message)

    def changed(self):
        self.beats += 1


@pytest.fixture
def room(tmp_path):
    class Room:
        state = LocalState(str(tmp_path))
        ear = Ear()
        obeyed: list[DesiredState] = []  # noqa: RUF012 - one room a test

        def orders(self):
            return Orders(state=self.state, servers=("a:1",), heart=self.ear, obey=self.obeyed.append)

    Room.state.open()
    yield Room()
    Room.state.close()


def order(epoch, generation, holder="h", mode=Mode.ENFORCE):
    return Order(state=DesiredState(epoch=epoch, holder=holder, generation=generation, mode=mode))


def test_an_order_is_on_disk_before_it_is_carried_out(room):
    orders = room.orders()
    seen = []
    room.obeyed = None
    orders._obey = lambda state: seen.append(LocalState(str(room.state.root)).obeyed())
    orders.received(order(2, 5))
    assert seen == [Obeyed(epoch=2, holder="h", generation=5)]


def test_a_restarted_agent_still_refuses_what_is_older(room):
    room.orders().received(order(2, 5))
    restarted = room.orders()
    restarted.received(order(1, 9, holder="old"))
    assert len(room.obeyed) == 1
    (refused,) = room.ear.replies
    assert refused == OrderRefused(
        epoch=1,
        generation=9,
        reason="epoch 1 is older than epoch 2, which this node has obeyed",
        highest_epoch=2,
        highest_holder="h",
    )


def test_the_same_order_twice_is_carried_out_twice(room):
    orders = room.orders()
    orders.received(order(2, 5))
    orders.received(order(2, 5))
    assert len(room.obeyed) == 2
    assert room.ear.replies == []


def test_learnt_control_planes_come_first_and_the_configured_ones_stay(room):
    orders = room.orders()
    orders.welcomed(Welcome(epoch=1, holder="h", servers=("b:2", "a:1", "c:3")))
    assert orders.addresses() == ("b:2", "a:1", "c:3")
    orders.welcomed(Welcome(epoch=1, holder="h", servers=("d:4",)))
    assert room.orders().addresses() == ("d:4", "a:1")


def test_a_welcome_makes_the_heart_tell_what_changed_since_the_hello(room):
    room.orders().welcomed(Welcome(epoch=1, holder="h"))
    assert room.ear.beats == 1


def log_of(room, attempt, text):
    path = room.state.log_path("r1.0", attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_newest_log_is_read_unless_another_is_asked_for(room):
    log_of(room, 9, "ninth\n")
    log_of(room, 10, "tenth\n")
    newest = read_log(room.state, LogRequest(id=1, shard="r1.0"))
    assert (newest.id, newest.attempt, newest.text) == (1, 10, "tenth\n")
    assert read_log(room.state, LogRequest(id=2, shard="r1.0", attempt=9)).text == "ninth\n"


def test_keys_in_a_log_are_taken_out(room):
    log_of(room, 1, "key le_testtest0123456789abcdefghij and Authorization: Bearer abcdefghijkl\n")
    text = read_log(room.state, LogRequest(id=1, shard="r1.0")).text
    assert text == "key le_testtest [redacted] and Authorization: Bearer [redacted]\n"


def test_only_the_end_is_read(room):
    log_of(room, 1, "x" * 1000 + "\nend\n")
    assert read_log(room.state, LogRequest(id=1, shard="r1.0", tail_bytes=100)).text == "end\n"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (LogRequest(id=1, shard="r1.0"), "this node has no log of shard r1.0"),
        (LogRequest(id=1, shard="r1.0", attempt=3), "this node has no log of attempt 3 of r1.0"),
        (LogRequest(id=1, shard="../../etc"), "'../../etc' is no shard id"),
        (LogRequest(id=1, shard="a\0"), "'a\\x00' is no shard id"),
    ],
)
def test_what_cannot_be_read_is_told(room, request_, error):
    reply = read_log(room.state, request_)
    assert (reply.text, reply.error) == (None, error)
