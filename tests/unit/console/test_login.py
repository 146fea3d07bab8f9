import pytest

from llmgw.console.frame import COOKIE
from llmgw.schema.key import AdminRole


async def test_without_a_login_there_is_only_the_login(browser):
    answer = await browser.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    page = await browser.get("/login")
    assert page.status_code == 200
    assert 'name="token" type="password"' in page.text
    assert "Log out" not in page.text


async def test_a_token_opens_the_overview(viewer):
    answer = await viewer.get("/")
    assert answer.status_code == 200
    assert "<h1>Overview</h1>" in answer.text
    assert (await viewer.get("/login")).headers["location"] == "/"


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(room, browser):
    secret = await room.token(AdminRole.VIEWER)
    answer = await browser.post("/login", data={"token": f"  {secret} "})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert secret not in cookie


async def test_the_cookie_is_secure_over_tls(room, browser):
    secret = await room.token(AdminRole.VIEWER)
    headers = {"origin": "https://control:8800"}
    answer = await browser.post("https://control:8800/login", data={"token": secret}, headers=headers)
    assert "Secure" in answer.headers["set-cookie"]


async def test_a_wrong_token_is_told_and_not_repeated(browser):
    answer = await browser.post("/login", data={"token": "lt_AAAAAAAAwrongsecret"})
    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert "wrongsecret" not in answer.text
    assert COOKIE not in browser.cookies


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://control:9999", "control:8800", "x://control:8800"]
)
async def test_a_form_from_elsewhere_is_refused(viewer, path, origin):
    answer = await viewer.post(path, data={"token": "x"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert (await viewer.get("/")).status_code == 200


async def test_a_logout_ends_the_session_on_the_server_too(viewer):
    session = viewer.cookies[COOKIE]
    answer = await viewer.post("/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert COOKIE not in viewer.cookies
    viewer.cookies.set(COOKIE, session)
    assert (await viewer.get("/")).status_code == 303


async def test_a_login_ends_the_session_before_it(room, viewer):
    session = viewer.cookies[COOKIE]
    await viewer.post("/login", data={"token": await room.token(AdminRole.ADMIN)})
    assert viewer.cookies[COOKIE] != session
    viewer.cookies.clear()
    viewer.cookies.set(COOKIE, session)
    assert (await viewer.get("/")).status_code == 303


async def test_an_open_page_goes_to_the_login_when_its_session_is_over(viewer):
    viewer.cookies.clear()
    answer = await viewer.get("/overview/live")
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")
    assert answer.text == ""


async def test_a_form_that_is_too_large_is_cut_off(browser):
    answer = await browser.post("/login", data={"token": "x" * 20_000})
    assert answer.status_code == 413


async def test_a_fault_is_told_on_a_page_that_tells_nothing_inner(room, viewer, monkeypatch):
    def broken():
        raise ZeroDivisionError("inner text")

    monkeypatch.setattr(room.fleet, "snapshot", broken)
    answer = await viewer.get("/")
    assert answer.status_code == 500
    assert "failed while answering" in answer.text
    assert "inner text" not in answer.text
    assert "content-security-policy" in answer.headers
