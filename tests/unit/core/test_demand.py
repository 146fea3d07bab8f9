from llmgw.core.demand import desired_replicas
from llmgw.testing.factories import make_model


def test_a_model_should_have_its_minimum_and_never_more_than_its_maximum():
    assert desired_replicas(make_model(min=2, max=5)) == 2
    assert desired_replicas(make_model(min=0, max=5)) == 0
    assert desired_replicas(make_model(min=3, max=2)) == 2
