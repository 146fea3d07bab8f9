"""`ctl alias set NAME MODEL[=WEIGHT]…`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("set")
@click.argument("name")
@click.argument("models", nargs=-1, required=True, metavar="MODEL[=WEIGHT]…")
@click.option("--fallback", "fallbacks", multiple=True, metavar="MODEL", help="Asked where those cannot answer.")
@pass_session
def alias_set(session: Session, name: str, models: tuple[str, ...], fallbacks: tuple[str, ...]) -> None:
    """Let clients ask MODEL as NAME too; several models share requests by weight (default 1)."""
    body = {"shares": [_share(text) for text in models], "fallbacks": list(fallbacks)}
    answer = session.api.call("PUT", f"/api/v1/aliases/{segment(name)}", body)
    session.say(f"{name} is an alias now", answer)


def _share(text: str) -> dict[str, object]:
    model, equals, weight = text.partition("=")
    if not equals:
        return {"model": model}
    try:
        return {"model": model, "weight": float(weight)}
    except ValueError:
        raise click.UsageError(f"{text!r}: write MODEL or MODEL=WEIGHT, such as chat=0.9.") from None
