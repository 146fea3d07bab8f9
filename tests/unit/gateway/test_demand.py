from llmgw.gateway.demand import ended_demand, total_demand, total_replicas
from llmgw.schema.demand import ModelDemand, ReplicaDemand


def one(**given) -> ModelDemand:
    return ModelDemand(**{"held": 1, "in_flight": 2, "arrivals": 3, **given})


def test_workers_add_up_the_oldest_wait_and_the_latest_end_count():
    total = total_demand(
        (
            {"m": one(oldest_wait_s=1.0, last_finished_age_s=5.0), "n": one()},
            {"m": one(oldest_wait_s=None, last_finished_age_s=2.0)},
        )
    )
    assert total["m"] == ModelDemand(held=2, in_flight=4, arrivals=6, oldest_wait_s=1.0, last_finished_age_s=2.0)
    assert total["n"] == one()


def test_unknown_stays_unknown():
    assert total_demand(({"m": one()}, {"m": one()}))["m"].last_finished_age_s is None


def test_of_an_ended_worker_only_what_it_had_counted_stays():
    left = ended_demand(ended_demand({}, {"m": one(oldest_wait_s=9.0)}), {"m": one()})
    assert left == {"m": ModelDemand(held=0, in_flight=0, arrivals=6)}


def test_of_a_replica_the_latest_answers_count_whoever_got_them():
    asked = {"r1": ReplicaDemand(in_flight=1, last_answered_age_s=9.0)}
    idle = {"r1": ReplicaDemand(in_flight=0, last_answered_age_s=4.0)}
    probed = {"r1": ReplicaDemand(in_flight=0, last_probed_age_s=2.0)}
    total = ReplicaDemand(in_flight=1, last_answered_age_s=4.0, last_probed_age_s=2.0)
    assert total_replicas((asked, idle, probed)) == {"r1": total}
