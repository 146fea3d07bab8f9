from llmgw.gateway.permits import Grant, LocalPermits, PermitLedger, Pool, Recall, Returned, Want

FOUR = {"p": Pool(model="m", capacity=4)}


def test_workers_get_equal_shares_and_the_rest_waits_at_the_master():
    ledger = PermitLedger(workers=3)
    assert ledger.set_pools(FOUR) == []
    orders = [order for worker in (1, 2, 3) for order in ledger.join(worker)]
    assert orders == [(worker, Grant(pool="p", count=1)) for worker in (1, 2, 3)]
    assert ledger.want(2, Want(model="m", count=1)) == [(2, Grant(pool="p", count=1))]
    assert ledger.issued("p") == 4


def test_a_pool_that_appears_later_is_shared_out_too():
    ledger = PermitLedger(workers=2)
    ledger.join(1)
    ledger.join(2)
    assert ledger.set_pools(FOUR) == [(1, Grant(pool="p", count=2)), (2, Grant(pool="p", count=2))]


def test_a_permit_is_asked_of_the_worker_with_most_of_them():
    ledger = PermitLedger(workers=1)
    ledger.set_pools(FOUR)
    ledger.join(1)
    ledger.join(2)
    assert ledger.want(2, Want(model="m", count=1)) == [(1, Recall(pool="p", count=1))]
    assert ledger.want(2, Want(model="m", count=1)) == []  # asked for already
    assert ledger.returned(1, Returned(pool="p", count=1, owed=0)) == [(2, Grant(pool="p", count=1))]


def test_a_busy_worker_is_not_the_last_one_asked():
    ledger = PermitLedger(workers=1)
    ledger.set_pools({"p": Pool(model="m", capacity=2), "q": Pool(model="m", capacity=1)})
    ledger.join(1)
    ledger.join(2)
    assert ledger.want(2, Want(model="m", count=1)) == [(1, Recall(pool="p", count=1))]
    # All of p is in use: the next place is looked at at once.
    assert ledger.returned(1, Returned(pool="p", count=0, owed=1)) == [(1, Recall(pool="q", count=1))]


def test_the_permits_of_a_worker_that_died_go_to_those_who_wait():
    ledger = PermitLedger(workers=1)
    ledger.set_pools(FOUR)
    ledger.join(1)
    ledger.join(2)
    ledger.want(2, Want(model="m", count=9))
    assert ledger.leave(1) == [(2, Grant(pool="p", count=1))] * 4


def test_fewer_slots_than_issued_are_recalled_and_no_more_granted():
    ledger = PermitLedger(workers=1)
    ledger.set_pools(FOUR)
    ledger.join(1)
    assert ledger.set_pools({"p": Pool(model="m", capacity=3)}) == [(1, Recall(pool="p", count=1))]
    assert ledger.returned(1, Returned(pool="p", count=1, owed=0)) == []
    assert ledger.issued("p") == 3


def test_what_is_owed_goes_back_when_a_request_ends():
    permits = LocalPermits()
    permits.granted(Grant(pool="p", count=2))
    permits.take("p")
    permits.take("p")
    assert permits.free("p") == 0
    assert permits.recalled(Recall(pool="p", count=1)) == Returned(pool="p", count=0, owed=1)
    assert permits.release("p") == Returned(pool="p", count=1, owed=0)
    assert permits.release("p") is None
    assert permits.free("p") == 1


def test_idle_permits_go_back_at_once():
    permits = LocalPermits()
    permits.granted(Grant(pool="p", count=2))
    permits.take("p")
    assert permits.recalled(Recall(pool="p", count=2)) == Returned(pool="p", count=1, owed=1)
