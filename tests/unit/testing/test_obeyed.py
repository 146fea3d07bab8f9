from llmgw.schema.desired import DesiredState, Mode
from llmgw.testing.fake_node import FakeNode
from llmgw.testing.obeyed import Obeyed, ObeyedFile, read_obeyed


def test_each_change_of_whom_a_node_obeys_or_refuses_is_noted_once(tmp_path):
    path = tmp_path / "obeyed"
    node = FakeNode("n1")
    with ObeyedFile(path) as file:
        node.note = file.note
        for epoch, holder in ((3, "a"), (3, "a"), (3, "b"), (4, "b")):
            node.obey(DesiredState(epoch=epoch, holder=holder, generation=1, mode=Mode.OBSERVE))
    assert read_obeyed(path) == (
        Obeyed(node="n1", epoch=3, holder="a"),
        Obeyed(node="n1", epoch=3, holder="b", refused="epoch 3 was obeyed from another holder"),
        Obeyed(node="n1", epoch=4, holder="b"),
    )
