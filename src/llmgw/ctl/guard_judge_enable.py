"""`ctl guard judge enable NAME`."""

from pathlib import Path

import click

from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.guard import JudgeEnabled


@click.command("enable")
@click.argument("name")
@click.option("--source", help="Weights of a judge; default those that nodes have and llmgw recognises.")
@click.option("--replace", is_flag=True, help="Take the place of a model that is no judge, or judges wrongly.")
@pass_session
def guard_judge_enable(session: Session, /, *, name: str, source: str | None, replace: bool) -> None:
    """Serve the judge that policies ask as NAME, or cure the one that is there.

    Without --source, Llama Guard 3 1B is looked for among the nodes' weights, then its 8B and Qwen3Guard-Gen.
    """
    body: dict[str, object] = {"replace": replace}
    if source is not None:
        there = not source.startswith(("hf:", "/")) and Path(source).exists()
        body["source"] = str(Path(source).absolute()) if there else source
    answer = session.api.post(f"/api/v1/guard/judges/{segment(name)}/enable", body)
    session.show(answer, JudgeEnabled, _text)


def _text(done: JudgeEnabled) -> str:
    lines = [f"{done.model}: {sentence}" for sentence in done.did]
    # How it does is not told: what is known now is of before the change.
    if done.judge is None:
        lines.append(f"no policy asks {done.model} yet")
    return "\n".join([*lines, "watch it with: llmgw ctl guard judge status"])
