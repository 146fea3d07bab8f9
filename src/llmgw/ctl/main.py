"""`llmgw ctl`: the operator's command line."""

import click

from llmgw.ctl.lazy import LazyGroup
from llmgw.ctl.session import Session

_NODE = {
    "list": ("llmgw.ctl.node_list:node_list", "All nodes."),
    "show": ("llmgw.ctl.node_show:node_show", "One node."),
    "cordon": ("llmgw.ctl.node_cordon:node_cordon", "Place nothing new on a node."),
    "uncordon": ("llmgw.ctl.node_uncordon:node_uncordon", "End a cordon or a drain."),
    "drain": ("llmgw.ctl.node_drain:node_drain", "Move all replicas off a node."),
    "remove": ("llmgw.ctl.node_remove:node_remove", "Forget a node whose agent is gone."),
    "token": ("llmgw.ctl.join_token:node_token", "Make a token that lets one node join."),
    "replace-silent": (
        "llmgw.ctl.node_replace_silent:node_replace_silent",
        "Replace nodes that fell silent together.",
    ),
}
_MODEL = {
    "serve": ("llmgw.ctl.model_serve:model_serve", "Serve a model."),
    "list": ("llmgw.ctl.model_list:model_list", "All models."),
    "show": ("llmgw.ctl.model_show:model_show", "One model, and why it is as it is."),
    "explain": ("llmgw.ctl.model_explain:model_explain", "Why a model is short, and what would make it fit."),
    "scale": ("llmgw.ctl.model_scale:model_scale", "Set how many replicas a model has."),
    "unpark": ("llmgw.ctl.model_unpark:model_unpark", "Try a parked model again."),
    "remove": ("llmgw.ctl.model_remove:model_remove", "Stop serving a model."),
}
_ALIAS = {
    "list": ("llmgw.ctl.alias_list:alias_list", "All aliases."),
    "set": ("llmgw.ctl.alias_set:alias_set", "Let clients ask models under another name, by weight."),
    "remove": ("llmgw.ctl.alias_remove:alias_remove", "Remove an alias."),
}
_REPLICA = {
    "list": ("llmgw.ctl.replica_list:replica_list", "All replicas with their restarts."),
    "logs": ("llmgw.ctl.replica_logs:replica_logs", "The end of a replica's engine log."),
}
_KEY = {
    "create": ("llmgw.ctl.key_create:key_create", "Make an API key; its secret is shown once."),
    "list": ("llmgw.ctl.key_list:key_list", "All API keys."),
    "revoke": ("llmgw.ctl.key_revoke:key_revoke", "Revoke an API key."),
}
_TOKEN = {
    "create": ("llmgw.ctl.token_create:token_create", "Make an operator's token; its secret is shown once."),
    "list": ("llmgw.ctl.token_list:token_list", "All operators' tokens."),
    "revoke": ("llmgw.ctl.token_revoke:token_revoke", "Revoke an operator's token."),
}

_SERVER = {
    "list": ("llmgw.ctl.server_list:server_list", "All control planes: which leads, which stand by."),
    "resume": ("llmgw.ctl.server_resume:server_resume", "Order nodes again after a restore."),
    "step-down": ("llmgw.ctl.server_step_down:server_step_down", "Have the leader hand over to another."),
    "remove": ("llmgw.ctl.server_remove:server_remove", "Forget a control plane that is gone."),
    "token": ("llmgw.ctl.join_token:server_token", "Make a token that lets one control plane join."),
}
_GATEWAY = {
    "token": ("llmgw.ctl.join_token:gateway_token", "Make a token that lets one gateway join."),
    "remove": ("llmgw.ctl.gateway_remove:gateway_remove", "Take the trust from a gateway that joined."),
}

_GUARD = {
    "policy": ("llmgw.ctl.main:guard_policy", "Policies: rules, and whose requests they apply to."),
    "judge": ("llmgw.ctl.main:guard_judge", "Judges that policies ask."),
    "audit": ("llmgw.ctl.guard_audit:guard_audit", "What guardrails did with requests."),
}
_GUARD_POLICY = {
    "apply": ("llmgw.ctl.guard_policy_apply:guard_policy_apply", "Make the policies those of a file."),
    "diff": ("llmgw.ctl.guard_policy_diff:guard_policy_diff", "What applying a file would change."),
    "export": ("llmgw.ctl.guard_policy_export:guard_policy_export", "The policies as a file."),
    "list": ("llmgw.ctl.guard_policy_list:guard_policy_list", "All policies."),
}
_GUARD_JUDGE = {
    "status": ("llmgw.ctl.guard_judge_status:guard_judge_status", "How each judge does."),
    "enable": ("llmgw.ctl.guard_judge_enable:guard_judge_enable", "Serve a judge, or cure one."),
}


@click.group(
    cls=LazyGroup,
    commands_from={
        "status": ("llmgw.ctl.status:status", "The whole fleet in one answer."),
        "node": ("llmgw.ctl.main:node", "Nodes."),
        "model": ("llmgw.ctl.main:model", "Models."),
        "alias": ("llmgw.ctl.main:alias", "Aliases: other names of models."),
        "replica": ("llmgw.ctl.main:replica", "Replicas."),
        "key": ("llmgw.ctl.main:key", "API keys of clients."),
        "token": ("llmgw.ctl.main:token", "Tokens of operators."),
        "server": ("llmgw.ctl.main:server", "Control planes."),
        "gateway": ("llmgw.ctl.main:gateway", "Gateways on machines of their own."),
        "guard": ("llmgw.ctl.main:guard", "Guardrails: policies, judges, audit."),
        "plan": ("llmgw.ctl.plan:plan", "What would happen now, and why."),
        "backup": ("llmgw.ctl.backup:backup", "Write the whole store to a file."),
        "restore": ("llmgw.ctl.restore:restore", "Put a backup into a new cluster."),
        "events": ("llmgw.ctl.events:events", "What happened lately."),
    },
)
@click.option("--context", help="Context of the contexts file to use; default the current one.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json", "yaml")),
    default="table",
    show_default=True,
    help="How to print answers.",
)
@click.pass_context
def ctl(ctx: click.Context, *, context: str | None, output: str) -> None:
    """Look at the fleet and change it.

    The API is found by LLMGW_API, LLMGW_TOKEN and, where it shows a certificate of the cluster, LLMGW_CA_FILE; else by
    the contexts file (LLMGW_CTL_CONFIG, default ~/.config/llmgw/ctl.toml), which `llmgw up` writes.
    """
    ctx.obj = Session(context=context, output=output)


@click.group(cls=LazyGroup, commands_from=_NODE)
def node() -> None:
    """Nodes: machines with an agent."""


@click.group(cls=LazyGroup, commands_from=_MODEL)
def model() -> None:
    """Models: what clients name in a request."""


@click.group(cls=LazyGroup, commands_from=_ALIAS)
def alias() -> None:
    """Aliases: other names under which clients ask models."""


@click.group(cls=LazyGroup, commands_from=_REPLICA)
def replica() -> None:
    """Replicas: running copies of models."""


@click.group(cls=LazyGroup, commands_from=_SERVER)
def server() -> None:
    """Control planes: one leads, others stand by."""


@click.group(cls=LazyGroup, commands_from=_GATEWAY)
def gateway() -> None:
    """Gateways on machines of their own: they join like nodes."""


@click.group(cls=LazyGroup, commands_from=_GUARD)
def guard() -> None:
    """Guardrails: what requests and answers must not hold, and who judges that."""


@click.group(cls=LazyGroup, commands_from=_GUARD_POLICY)
def guard_policy() -> None:
    """Policies: rules, and whose requests they apply to."""


@click.group(cls=LazyGroup, commands_from=_GUARD_JUDGE)
def guard_judge() -> None:
    """Judges that policies ask: models in role guard."""


@click.group(cls=LazyGroup, commands_from=_KEY)
def key() -> None:
    """API keys of clients."""


@click.group(cls=LazyGroup, commands_from=_TOKEN)
def token() -> None:
    """Tokens of operators, for this command, the console and Prometheus."""
