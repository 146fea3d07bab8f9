from msgspec.structs import replace

from llmgw.schema.report import Load
from llmgw.server.live import Live, LiveNodes
from llmgw.testing.fake_node import fake_facts


def live(**changes):
    return replace(
        Live(
            node="n1",
            stream=1,
            facts=fake_facts("n1"),
            reports=(),
            generation=1,
            connected=True,
            heard_at=10.0,
        ),
        **changes,
    )


def test_a_load_ages_and_is_left_out_after_a_minute():
    one = live(load=Load(age_s=2.0, load1=0.5), load_at=100.0)
    assert one.fresh_load(103.0) == Load(age_s=5.0, load1=0.5)
    assert one.fresh_load(158.0) is not None
    assert one.fresh_load(158.5) is None
    assert live().fresh_load(0.0) is None


def test_an_age_below_nothing_makes_no_load_younger():
    assert live(load=Load(age_s=-500.0), load_at=100.0).fresh_load(160.5) is None


def test_listeners_hear_of_what_was_said_and_not_of_signs_of_life_or_loads():
    nodes = LiveNodes()
    told = []
    nodes.changes.subscribe(lambda: told.append(1))
    nodes.put(live())
    nodes.touch("n1", 20.0)
    nodes.put(live(load=Load(age_s=0.0), load_at=1.0))
    assert len(told) == 1
    nodes.put(live(generation=2))
    nodes.disconnect("n1")
    nodes.disconnect("n1")
    assert len(told) == 3


def test_a_disconnected_agents_words_stay_until_all_is_forgotten():
    nodes = LiveNodes()
    nodes.put(live())
    nodes.disconnect("n1")
    assert nodes.get("n1") == live(connected=False)
    nodes.forget()
    assert nodes.get("n1") is None
    assert nodes.all() == ()
