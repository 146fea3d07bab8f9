import resource

from llmgw.config.open_files import raise_open_files


def test_the_soft_limit_becomes_the_hard_one():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_open_files() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
