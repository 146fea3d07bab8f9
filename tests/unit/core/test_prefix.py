from llmgw.core import prefix
from llmgw.core.prefix import BLOCK_BYTES, LEAST_BLOCKS, LOST, BelievedCache, chain_of, packed, salt_of, unpacked


def prompt(*blocks: int) -> bytes:
    return b"".join(bytes([block]) * BLOCK_BYTES for block in blocks)


def chain(*blocks: int):
    return chain_of(prompt(*blocks), salt=0)


def test_a_hash_stands_for_all_before_it():
    assert chain(1, 2, 3)[:2] == chain(1, 2)
    assert chain(1, 2, 3)[2] != chain(1, 9, 3)[2]
    assert chain(1, 1)[0] != chain(1, 1)[1]


def test_only_whole_blocks_count_and_the_beginning_of_an_endless_prompt(monkeypatch):
    assert chain_of(prompt(1)[:-1], salt=0) == ()
    assert chain_of(prompt(1, 2) + b"rest", salt=0) == chain(1, 2)
    monkeypatch.setattr(prefix, "MAX_BLOCKS", 3)
    assert chain(1, 2, 3, 4, 5) == chain(1, 2, 3)


def test_different_salts_share_nothing():
    one, other = (chain_of(prompt(1, 2), salt=salt_of(word)) for word in (b"a", b"b"))
    assert not set(one) & set(other)
    assert salt_of(b"a", b"b") != salt_of(b"b", b"a")


def test_a_chain_survives_its_way_over_the_wire():
    assert unpacked(packed(chain(1, 2, 3))) == chain(1, 2, 3)
    assert len(packed(chain(1, 2, 3))) == 24


def test_the_depth_is_the_longest_beginning_that_was_added():
    cache = BelievedCache()
    assert cache.depth(chain(1, 2)) == 0
    cache.add(chain(1, 2, 3))
    for other, depth in (((1, 2, 3), 3), ((1, 2, 3, 4, 5), 3), ((1, 2, 9), 2), ((9, 2, 3), 0), ((), 0)):
        assert cache.depth(chain(*other)) == depth


def test_the_least_recently_used_is_forgotten_and_what_is_used_again_stays():
    cache = BelievedCache(LEAST_BLOCKS)
    for number in range(1, 200):
        cache.add(chain(0, number % 256, 1, 2))
        cache.add(chain(255, 255))
    assert cache.depth(chain(255, 255)) == 2
    assert cache.depth(chain(0, 199, 1, 2)) == 4
    assert cache.depth(chain(0, 5, 1, 2)) == 1
    assert len(cache) <= 2 * LEAST_BLOCKS


def told(cache, asked, *, cached):
    cache.told(cache.layers(asked), size=len(asked), cached=cached)


def test_an_engine_that_lacks_what_it_should_have_cannot_hold_what_came_after_it():
    cache = BelievedCache(10_000)
    asked = chain(*range(10))
    cache.add(asked)
    for number in range(10, 110):
        cache.add(chain(number, number))
    told(cache, asked, cached=1.0)
    assert cache.blocks == 10_000
    told(cache, asked, cached=0.5)
    assert cache.blocks == 10_000 - (10_000 - 210) * 0.5
    for _ in range(60):
        told(cache, asked, cached=0.5)
    assert 200 <= cache.blocks < 220


def test_what_is_missing_is_known_by_its_age_and_never_makes_a_cache_larger():
    cache = BelievedCache(400)
    asked = chain(*range(10))
    cache.add(asked)
    for number in range(10, 60):
        cache.add(chain(number, number))
    cache.add(asked[:4])
    (young, held), (old, all_held) = cache.layers(asked)
    assert (young, old) == (4, 10)
    assert 4 <= held < all_held == len(cache) == 110
    before = cache.blocks
    told(cache, asked, cached=0.8)
    assert cache.blocks == before - (before - all_held) * 0.5
    told(cache, asked, cached=0.1)
    assert cache.blocks < before - (before - all_held) * 0.5


def test_a_cache_that_has_more_than_it_should_is_believed_larger():
    cache = BelievedCache(1000)
    told(cache, chain(1, 2, 3), cached=0.9)
    assert cache.blocks == 1050


def test_a_cache_that_holds_nothing_of_what_it_should_time_after_time_is_taken_for_empty():
    cache = BelievedCache()
    asked = chain(1, 2, 3)
    cache.add(asked)
    for _ in range(LOST - 1):
        told(cache, asked, cached=0.0)
    told(cache, asked, cached=1.0)
    for _ in range(LOST - 1):
        told(cache, asked, cached=0.0)
    assert cache.depth(asked) == 3
    told(cache, asked, cached=0.0)
    assert cache.depth(asked) == 0


def test_belief_has_bounds_both_ways():
    cache = BelievedCache(100)
    for _ in range(1000):
        told(cache, chain(1, 2), cached=1.0)
    assert cache.blocks == prefix.MOST_BLOCKS
    cache.add(chain(1, 2))
    for _ in range(1000):
        told(cache, chain(1, 2), cached=0.4)
    assert cache.blocks == LEAST_BLOCKS


def test_memory_that_is_short_bounds_what_is_kept_whatever_is_believed():
    cache = BelievedCache(50_000)
    cache.keep(100)
    for number in range(1000):
        cache.add(chain(number % 256, number // 256))
    assert len(cache) <= 110
    assert cache.blocks == 50_000


def test_all_of_a_cache_added_elsewhere_gives_the_same_depths():
    cache, other = BelievedCache(400), BelievedCache(400)
    for number in range(300):
        cache.add(chain(number % 256, 1, number % 7))
    for part in cache.all():
        other.add(part)
    for number in range(256):
        asked = chain(number, 1, number % 7)
        assert other.depth(asked) == cache.depth(asked)
