from llmgw.gateway.retry import RetryBudget


def test_retries_are_a_share_of_requests():
    budget = RetryBudget()
    assert sum(budget.spend() for _ in range(100)) == 10
    for _ in range(50):
        budget.earn()
    assert sum(budget.spend() for _ in range(100)) in (9, 10)


def test_a_quiet_night_saves_up_no_storm():
    budget = RetryBudget()
    for _ in range(100_000):
        budget.earn()
    assert sum(budget.spend() for _ in range(1000)) == 20
