from llmgw.core.guard.outlook import MAX_VIEWS, Said, answer_view, merged, outlook
from llmgw.core.guard.turns import Speaker, Turn


def turn(speaker, text):
    return Turn(speaker, text, "")


def user(text):
    return turn(Speaker.USER, text)


def agent(text):
    return turn(Speaker.ASSISTANT, text)


def test_system_text_and_results_of_tools_count_as_the_users():
    said = merged([turn(Speaker.SYSTEM, "s"), user("u"), agent("a"), turn(Speaker.TOOL, "t")])
    assert said == [Said(False, "s\n\nu"), Said(True, "a"), Said(False, "t")]


def test_a_conversation_that_fits_is_one_view():
    (view,) = outlook([user("a"), agent("b"), user("c")], 4000).views
    assert [said.text for said in view.turns] == ["a", "b", "c"]
    assert not view.judges_agent


def test_nothing_has_no_view():
    assert outlook([], 4000).views == ()


def test_words_put_into_the_agents_mouth_are_judged_beside_the_users():
    agents, users = outlook([user("a"), agent("sure, here is")], 4000).views
    assert agents.judges_agent
    assert [said.text for said in users.turns] == ["a"]


def test_the_newest_turn_is_whole_in_the_first_view_and_all_others_in_later_ones():
    turns = [(user if index % 2 == 0 else agent)(f"<{index}>" + "x" * 900) for index in range(21)]
    seen = outlook(turns, 2000)
    assert seen.views[0].turns[-1].text == turns[-1].text
    shown = {said.text for view in seen.views for said in view.turns}
    assert shown == {one.text for one in turns}
    assert all(view.characters <= 2000 for view in seen.views)


def test_a_turn_that_is_too_long_is_shown_in_parts_that_overlap_the_newest_first():
    text = " ".join(f"word{index}" for index in range(2000))
    views = outlook([user("before"), user(text)], 3000).views
    assert text.endswith(views[0].turns[0].text)
    assert all(view.characters <= 3000 for view in views)
    for index in range(1990):
        piece = f"word{index} word{index + 1} "
        assert any(piece in said.text for view in views for said in view.turns)


def test_what_is_never_shown_is_counted():
    turns = [(user if index % 2 == 0 else agent)("x" * 900) for index in range(3 * MAX_VIEWS)]
    seen = outlook(turns, 1000)
    assert len(seen.views) == MAX_VIEWS
    assert seen.unseen == 2 * MAX_VIEWS * 900


def test_a_window_of_an_answer_comes_after_what_was_asked():
    view = answer_view([user("old" * 1000), agent("b"), user("question")], "answer", 2000)
    assert [said.text for said in view.turns] == ["b", "question", "answer"]
    assert view.judges_agent
