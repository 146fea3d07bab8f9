"""What is stored beside the fleet's tables: keys, tokens, machines that joined, policies, aliases and settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from llmgw.ports import (
    DeleteAlias,
    DeleteEnrolment,
    DeleteJoinToken,
    DeletePolicy,
    PutAdminToken,
    PutAlias,
    PutApiKey,
    PutEnrolment,
    PutJoinToken,
    PutPolicy,
    PutSetting,
    Store,
    Write,
)
from llmgw.schema.alias import Alias
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Enrolment, JoinToken
from llmgw.schema.key import AdminToken, ApiKey


@dataclass(slots=True)
class Registers:
    """By id or name."""

    api_keys: dict[str, ApiKey] = field(default_factory=dict)
    admin_tokens: dict[str, AdminToken] = field(default_factory=dict)
    join_tokens: dict[str, JoinToken] = field(default_factory=dict)
    enrolments: dict[str, Enrolment] = field(default_factory=dict)
    policies: dict[str, StoredPolicy] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def load(cls, store: Store) -> "Registers":
        """Read all of it. Raises `StoreUnavailable`."""
        settings = await store.load_settings()
        tokens = await store.load_admin_tokens()
        trust = await store.load_trust()
        policies = await store.load_policies()
        aliases = await store.load_aliases()
        keys = await store.load_keys()
        return cls(
            api_keys={key.id: key for key in keys},
            admin_tokens={token.id: token for token in tokens},
            join_tokens={token.id: token for token in trust.tokens},
            enrolments={enrolment.id: enrolment for enrolment in trust.enrolments},
            policies={stored.policy.name: stored for stored in policies},
            aliases={alias.name: alias for alias in aliases},
            settings=settings,
        )

    def fold(self, writes: Sequence[Write]) -> None:  # noqa: C901, PLR0912 - a table of writes, one line each
        """Take over writes that were carried out; those to the fleet's tables are left out."""
        for write in writes:
            match write:
                case PutApiKey(key=key):
                    self.api_keys[key.id] = key
                case PutAdminToken(token=token):
                    self.admin_tokens[token.id] = token
                case PutJoinToken(token=join_token):
                    self.join_tokens[join_token.id] = join_token
                case DeleteJoinToken(id=join_token_id):
                    self.join_tokens.pop(join_token_id, None)
                case PutEnrolment(enrolment=enrolment):
                    self.enrolments[enrolment.id] = enrolment
                case DeleteEnrolment(id=enrolment_id):
                    self.enrolments.pop(enrolment_id, None)
                case PutPolicy(policy=policy):
                    self.policies[policy.policy.name] = policy
                case DeletePolicy(name=name):
                    self.policies.pop(name, None)
                case PutAlias(alias=alias):
                    self.aliases[alias.name] = alias
                case DeleteAlias(name=name):
                    self.aliases.pop(name, None)
                case PutSetting(name=name, value=value):
                    self.settings[name] = value
                case _:
                    pass
