"""`ctl guard audit`."""

import click

from llmgw.ctl.output import table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.guard import AuditList
from llmgw.schema.demand import AuditEntry
from llmgw.schema.guard.coverage import Outcome, Why


@click.command("audit")
@click.option("--outcome", type=click.Choice([outcome.value for outcome in Outcome]), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@pass_session
def guard_audit(session: Session, /, *, outcome: str | None, limit: int) -> None:
    """List what guardrails did with requests, newest last: which rules, what was not scanned, what passed unjudged."""
    chosen = f"&outcome={outcome}" if outcome else ""
    session.show(session.api.get(f"/api/v1/guard/audit?limit={limit}{chosen}"), AuditList, _table)


def _table(answer: AuditList) -> str:
    rows = [
        (
            f"{entry.at:%Y-%m-%d %H:%M:%S}Z",
            entry.coverage.outcome,
            entry.model,
            entry.surface,
            entry.key,
            ", ".join(entry.coverage.by),
            _gaps(entry),
            entry.request_id,
        )
        for entry in reversed(answer.entries)
    ]
    columns = ("AT", "OUTCOME", "MODEL", "SURFACE", "KEY", "BY", "NOT SCANNED", "REQUEST")
    return table(columns, rows, empty="nothing was flagged, redacted, blocked or left unscanned since it leads")


def _gaps(entry: AuditEntry) -> str:
    parts = [f"{part.where}: {_WORDS[part.why]}" for part in entry.coverage.unscanned]
    bypassed = sum(scan.bypassed for scan in entry.coverage.scans)
    if bypassed:
        parts.append(f"{bypassed} passed without a verdict")
    return "; ".join(parts)


_WORDS = {
    Why.IMAGE: "an image",
    Why.AUDIO: "audio",
    Why.FILE: "a file",
    Why.TOKEN_NUMBERS: "numbers of a tokenizer",
    Why.UNKNOWN_PART: "a part of an unknown kind",
    Why.TOO_LONG: "longer than the judge can be shown",
    Why.CUT_OFF: "the answer ended before a rule had looked",
}
