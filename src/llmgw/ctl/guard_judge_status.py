"""`ctl guard judge status`."""

import click

from llmgw.ctl.output import ago, fields
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.guard import JudgeList
from llmgw.schema.guard.judge import JudgeStatus


@click.command("status")
@pass_session
def guard_judge_status(session: Session) -> None:
    """Say of each judge that policies ask how it does, and what is wrong."""
    session.show(session.api.get("/api/v1/guard/judges"), JudgeList, _text)


def _text(answer: JudgeList) -> str:
    if not answer.judges:
        return "no policy asks a judge"
    return "\n\n".join(_judge(judge) for judge in answer.judges)


def _judge(judge: JudgeStatus) -> str:
    canaries, failure = judge.canaries, judge.last_failure
    family = f"{judge.family} (a policy says so)" if judge.family and judge.forced else judge.family
    pairs = (
        ("state", judge.state),
        ("asked by", ", ".join(judge.policies)),
        ("in catalog", "yes" if judge.in_catalog else "no"),
        ("is a judge", "yes" if judge.is_judge else "no"),
        ("family", family),
        ("replicas ready", judge.replicas_ready),
        ("canaries", f"{canaries.right} of {canaries.total} right" if canaries else "none yet"),
        ("last failure", f"{ago(failure.at)}: {failure.text}" if failure else "none"),
        ("what helps", judge.remedy),
    )
    return "\n".join([judge.text, *(f"  {line}" for line in fields(pairs).splitlines())])
