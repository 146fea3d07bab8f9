"""Every metric in one table, from which its documentation is generated."""

from enum import StrEnum

from llmgw.schema.value import Value


class Kind(StrEnum):
    """Prometheus types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(Value, frozen=True, kw_only=True):
    """One metric. Counters are named without `_total`, which the exposition adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

TABLE: tuple[Metric, ...] = (
    # Gateway: collected in its workers, exported by the control plane.
    Metric(
        name="llmgw_gateway_requests",
        kind=Kind.COUNTER,
        labels=("gateway", "model", "route", "status"),
        help="Requests answered, by status code; 499 is a client that left, no route what was no proper HTTP.",
    ),
    Metric(
        name="llmgw_gateway_in_flight",
        kind=Kind.GAUGE,
        labels=("gateway", "model"),
        help="Requests at an engine now.",
    ),
    Metric(
        name="llmgw_gateway_queue_depth",
        kind=Kind.GAUGE,
        labels=("gateway", "model"),
        help="Requests waiting for a free slot now.",
    ),
    Metric(
        name="llmgw_gateway_retries",
        kind=Kind.COUNTER,
        labels=("gateway", "model"),
        help="Requests tried again on another replica before the first byte.",
    ),
    Metric(
        name="llmgw_gateway_view_unsaved",
        kind=Kind.GAUGE,
        labels=("gateway",),
        help="1 while the gateway cannot write its last routing view, which its next start would need; else absent.",
    ),
    Metric(
        name="llmgw_gateway_peers",
        kind=Kind.GAUGE,
        labels=("gateway", "state"),
        help="Other gateways: known ones tell this one their load, silent ones should. Absent without peer_listen.",
    ),
    Metric(
        name="llmgw_gateway_tokens",
        kind=Kind.COUNTER,
        labels=("gateway", "model", "direction"),
        help=(
            "Tokens as engines counted them; direction is prompt, cached, completion, or expected: those of the prompt "
            "that the replica should have had in its cache."
        ),
    ),
    Metric(
        name="llmgw_guard_requests",
        kind=Kind.COUNTER,
        labels=("gateway", "outcome"),
        help="Requests under guardrail rules, by outcome; unavailable: refused, as a rule had no verdict.",
    ),
    Metric(
        name="llmgw_guard_verdicts",
        kind=Kind.COUNTER,
        labels=("gateway", "policy", "rule", "stage", "action", "state"),
        help="Requests that a rule looked at, by its worst verdict: safe, unsafe or error.",
    ),
    Metric(
        name="llmgw_guard_bypasses",
        kind=Kind.COUNTER,
        labels=("gateway", "policy", "rule", "failure"),
        help="Texts that passed without a verdict because the rule fails open, by why there was none.",
    ),
    Metric(
        name="llmgw_guard_unscanned",
        kind=Kind.COUNTER,
        labels=("gateway", "stage", "why"),
        help="Parts of requests and answers that no rule read, by why.",
    ),
    Metric(
        name="llmgw_guard_judge_seconds",
        kind=Kind.HISTOGRAM,
        labels=("gateway", "judge"),
        buckets=_SECONDS,
        help="Time to a judge's verdict, waiting for a slot included; canaries are left out.",
    ),
    Metric(
        name="llmgw_guard_judge_failures",
        kind=Kind.COUNTER,
        labels=("gateway", "judge", "failure"),
        help="Questions to judges without a verdict, by why.",
    ),
    Metric(
        name="llmgw_guard_judge_questions",
        kind=Kind.COUNTER,
        labels=("gateway", "key", "judge"),
        help="Questions to judges, by the client key whose requests caused them.",
    ),
    Metric(
        name="llmgw_guard_judge_tokens",
        kind=Kind.COUNTER,
        labels=("gateway", "key", "judge", "direction"),
        help="Tokens of judges, by the client key whose requests caused them; direction is prompt or completion.",
    ),
    Metric(
        name="llmgw_guard_policies",
        kind=Kind.GAUGE,
        help="Policies of the guardrails; absent where this control plane does not lead.",
    ),
    Metric(
        name="llmgw_guard_judge_healthy",
        kind=Kind.GAUGE,
        labels=("judge",),
        help="1 for a judge that policies ask and that proves that it judges, 0 for one that does not.",
    ),
    Metric(
        name="llmgw_guard_judge_state",
        kind=Kind.GAUGE,
        labels=("judge", "state"),
        help="1 for the state a judge is in, as llmgw ctl guard judge status says it.",
    ),
    Metric(
        name="llmgw_guard_judge_waiting",
        kind=Kind.GAUGE,
        labels=("judge",),
        help="Questions that wait for a judge, at all gateways that report; absent while none does.",
    ),
    Metric(
        name="llmgw_gateway_time_to_first_token_seconds",
        kind=Kind.HISTOGRAM,
        labels=("gateway", "model"),
        buckets=_SECONDS,
        help="From the end of the request to the first token of its answer.",
    ),
    Metric(
        name="llmgw_gateway_inter_token_seconds",
        kind=Kind.HISTOGRAM,
        labels=("gateway", "model"),
        buckets=_SECONDS,
        help="Between two pieces of a streamed answer, after the first token; engines may put several into one.",
    ),
    Metric(
        name="llmgw_gateway_key_tokens",
        kind=Kind.COUNTER,
        labels=("gateway", "key", "model", "direction"),
        help="Tokens by the key's public id; without keys of a gateway that lets everybody in.",
    ),
    # Control plane.
    Metric(name="llmgw_lease_epoch", kind=Kind.GAUGE, help="Epoch this control plane last held or saw."),
    Metric(name="llmgw_lease_leader", kind=Kind.GAUGE, help="1 while this control plane leads, else 0."),
    Metric(
        name="llmgw_lease_renew_age_seconds",
        kind=Kind.GAUGE,
        help="Seconds since the lease was last renewed; absent on a standby.",
    ),
    Metric(
        name="llmgw_lease_terms",
        kind=Kind.COUNTER,
        help="How often this control plane has begun to lead since it was started.",
    ),
    Metric(
        name="llmgw_lease_hand_overs",
        kind=Kind.COUNTER,
        help="How often this control plane handed the lead over, since agents reached another one and not it.",
    ),
    Metric(
        name="llmgw_store_member_ok",
        kind=Kind.GAUGE,
        labels=("member",),
        help="1 while nothing is wrong with a member of the replicated store, else 0; absent without `patroni`.",
    ),
    Metric(
        name="llmgw_store_member_lag_bytes",
        kind=Kind.GAUGE,
        labels=("member",),
        help="Bytes a standby of the replicated store is behind its leader; absent where that is unknown.",
    ),
    Metric(
        name="llmgw_store_replicated",
        kind=Kind.GAUGE,
        help="1 while the store has one primary and a synchronous standby, else 0; absent without `patroni`.",
    ),
    Metric(
        name="llmgw_floating_address_ok",
        kind=Kind.GAUGE,
        help="1 while the floating address is on the leader and answers there, else 0; absent without one.",
    ),
    Metric(
        name="llmgw_control_planes",
        kind=Kind.GAUGE,
        labels=("state",),
        help="Control planes by what they do: leading, standing by, not answering.",
    ),
    Metric(
        name="llmgw_loop_lag_seconds",
        kind=Kind.HISTOGRAM,
        buckets=_SECONDS,
        help="How late the control plane's serving loop woke up.",
    ),
    Metric(
        name="llmgw_store_call_seconds",
        kind=Kind.HISTOGRAM,
        labels=("call",),
        buckets=_SECONDS,
        help="Duration of store calls, failed ones included.",
    ),
    Metric(
        name="llmgw_store_errors",
        kind=Kind.COUNTER,
        labels=("call", "code"),
        help="Store calls that failed, by error code.",
    ),
    Metric(
        name="llmgw_observing",
        kind=Kind.GAUGE,
        help="1 while nothing is ordered since the store was restored, or lost, and nobody resumed, else 0.",
    ),
    Metric(
        name="llmgw_data_dir_free_bytes",
        kind=Kind.GAUGE,
        help="Room left on the disk of the control plane's data_dir, where SQLite keeps the store.",
    ),
    Metric(name="llmgw_nodes", kind=Kind.GAUGE, labels=("state",), help="Nodes by shown state."),
    Metric(
        name="llmgw_nodes_not_replaced",
        kind=Kind.GAUGE,
        labels=("reason",),
        help="Silent nodes that are not replaced: held (fell silent with many others) or serving (engines answer).",
    ),
    Metric(
        name="llmgw_node_silences",
        kind=Kind.GAUGE,
        labels=("node",),
        help="How often the node's agent fell silent within the last ten minutes; absent when it did not.",
    ),
    Metric(name="llmgw_node_cpus", kind=Kind.GAUGE, labels=("node",), help="Cores the node may use."),
    Metric(name="llmgw_node_memory_bytes", kind=Kind.GAUGE, labels=("node",), help="Total memory of the node."),
    Metric(
        name="llmgw_node_cpu_utilization_percent",
        kind=Kind.GAUGE,
        labels=("node",),
        help="CPU use of the node, all cores it may use together; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_node_load",
        kind=Kind.GAUGE,
        labels=("node", "period"),
        help="Load average; period is 1m, 5m or 15m; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_node_memory_used_bytes",
        kind=Kind.GAUGE,
        labels=("node",),
        help="Memory that is taken and cannot be had back; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_node_memory_available_bytes",
        kind=Kind.GAUGE,
        labels=("node",),
        help="Memory that could be had without swapping; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_node_problems",
        kind=Kind.GAUGE,
        labels=("node",),
        help="How many things its agent says are wrong with the node, such as a full disk; absent when none is.",
    ),
    Metric(
        name="llmgw_node_data_dir_free_bytes",
        kind=Kind.GAUGE,
        labels=("node",),
        help="Room left for the agent's files and the logs of engines; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_node_pressure_percent",
        kind=Kind.GAUGE,
        labels=("node", "resource"),
        help="Share of the last ten seconds in which a task waited for cpu, memory or io; absent without PSI.",
    ),
    Metric(
        name="llmgw_node_load_age_seconds",
        kind=Kind.GAUGE,
        labels=("node",),
        help="Age of the node's load measurement; absent, as all of it is, after a minute.",
    ),
    Metric(
        name="llmgw_node_devices",
        kind=Kind.GAUGE,
        labels=("node", "class", "state"),
        help="Devices of the node that are free, used or unhealthy.",
    ),
    Metric(
        name="llmgw_shard_cpu_cores",
        kind=Kind.GAUGE,
        labels=("node", "model", "replica", "shard"),
        help="Cores that an engine's process group kept busy; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_shard_memory_bytes",
        kind=Kind.GAUGE,
        labels=("node", "model", "replica", "shard"),
        help="Resident memory of an engine's process group, mapped weights included; absent when older than a minute.",
    ),
    Metric(
        name="llmgw_shard_memory_anonymous_bytes",
        kind=Kind.GAUGE,
        labels=("node", "model", "replica", "shard"),
        help="The part of it that no file backs, which pressure cannot take back.",
    ),
    Metric(name="llmgw_replicas", kind=Kind.GAUGE, labels=("model", "state"), help="Replicas by state."),
    Metric(
        name="llmgw_replica_restarts",
        kind=Kind.COUNTER,
        labels=("model",),
        help="Restarts of replicas since this control plane leads.",
    ),
    Metric(
        name="llmgw_models",
        kind=Kind.GAUGE,
        labels=("state",),
        help="Models that are satisfied, short, parked or unplaceable; the last two are also short.",
    ),
    Metric(name="llmgw_agents_connected", kind=Kind.GAUGE, help="Agents connected to this control plane."),
    Metric(
        name="llmgw_gateways_connected",
        kind=Kind.GAUGE,
        help="Gateway masters connected to this control plane.",
    ),
)
