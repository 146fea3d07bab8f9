from llmgw.server.floating import host_word, local_addresses

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.77.0.0/24 2 0 1
        |-- 10.77.0.0
           /24 link UNICAST
        |-- 10.77.0.11
           /32 host LOCAL
        |-- 10.77.0.100
           /32 host LOCAL
        |-- 10.77.0.255
           /32 link BROADCAST
Local:
     |-- 127.0.0.1
        /32 host LOCAL
"""
SIX = "00000000000000000000000000000001 01 80 10 80       lo\nfd000000000000000000000000000100 02 80 00 80     eth0\n"


def make_proc(root, *, keepalived="net:[1]"):
    (root / "net").mkdir()
    (root / "net/fib_trie").write_text(TRIE)
    (root / "net/if_inet6").write_text(SIX)
    for pid, comm, space in (("self", "python", "net:[1]"), ("7", "keepalived", keepalived), ("8", "bash", "net:[1]")):
        (root / pid / "ns").mkdir(parents=True)
        (root / pid / "comm").write_text(comm + "\n")
        (root / pid / "ns/net").symlink_to(space)
    return root


def test_the_kernels_own_addresses_are_those_of_hosts_not_of_networks(tmp_path):
    assert local_addresses(make_proc(tmp_path)) == {"10.77.0.11", "10.77.0.100", "127.0.0.1", "::1", "fd00::100"}


def test_this_host_says_whether_it_has_the_address_and_a_keepalived(tmp_path):
    word = host_word("cp1", "10.77.0.100", proc=make_proc(tmp_path))
    assert (word.name, word.has_address, word.keepalived) == ("cp1", True, True)
    assert not host_word("cp1", "10.77.0.101", proc=tmp_path).has_address


def test_a_keepalived_of_another_network_namespace_is_another_hosts(tmp_path):
    assert host_word("cp1", "10.77.0.100", proc=make_proc(tmp_path, keepalived="net:[2]")).keepalived is False


def test_what_cannot_be_seen_is_unknown(tmp_path):
    word = host_word("cp1", "10.77.0.100", proc=tmp_path / "absent")
    assert (word.has_address, word.keepalived) == (False, None)


def test_the_real_kernel_knows_loopback():
    assert "127.0.0.1" in local_addresses()
