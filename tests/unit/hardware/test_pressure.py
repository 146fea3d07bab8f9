from llmgw.hardware import pressure
from llmgw.schema.report import Pressure

CPU = "some avg10=1.53 avg60=0.18 avg300=0.38 total=5042320038\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def test_the_share_in_which_some_task_waited_counts():
    assert pressure.parse_pressure(CPU) == 1.53


def test_a_file_without_it_tells_nothing():
    assert pressure.parse_pressure("") is None
    assert pressure.parse_pressure("full avg10=3.00 avg60=0.00\n") is None


def test_each_resource_stands_for_itself(tmp_path):
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(CPU)
    (tmp_path / "pressure" / "io").write_text("some avg10=x\n")
    assert pressure.read(proc=tmp_path) == Pressure(cpu_percent=1.53)


def test_a_kernel_without_pressure_tells_none_at_all(tmp_path):
    assert pressure.read(proc=tmp_path) is None
