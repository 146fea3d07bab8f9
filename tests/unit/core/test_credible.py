from llmgw.core.credible import EPOCHS_AHEAD, MOST_GENERATIONS, doubt


def test_what_a_leader_of_this_cluster_can_have_ordered_is_believed():
    assert doubt(epoch=0, generation=0, ours=5) is None
    assert doubt(epoch=5 + EPOCHS_AHEAD, generation=MOST_GENERATIONS, ours=5) is None


def test_what_nobody_can_have_ordered_is_told():
    assert doubt(epoch=6 + EPOCHS_AHEAD, generation=0, ours=5) is not None
    assert doubt(epoch=-1, generation=0, ours=5) is not None
    assert doubt(epoch=5, generation=MOST_GENERATIONS + 1, ours=5) is not None
    assert doubt(epoch=5, generation=-1, ours=5) is not None
