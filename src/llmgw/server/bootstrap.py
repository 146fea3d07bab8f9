"""What a new cluster needs before anybody can ask anything of it: a hash key, a first token and a first API key."""

import os
from pathlib import Path
from typing import Any

import msgspec

from llmgw.config.contexts import replace_private
from llmgw.ports import Clock, PutAdminToken, PutApiKey, PutSetting, Write
from llmgw.schema.errors import InvalidInput
from llmgw.schema.key import AdminRole, AdminToken, ApiKey
from llmgw.schema.value import Value
from llmgw.server.fleet import HASH_KEY_SETTING, Fleet
from llmgw.server.identity import SecretKind, hash_secret, new_agent_token, new_hash_key, new_secret, public_id

FIRST_NAME = "first"


class Credentials(Value, frozen=True, kw_only=True):
    """The first secrets of a cluster, as `credentials.json` holds them (the named exception to "shown once")."""

    api_key: str
    admin_token: str


async def bootstrap(fleet: Fleet, clock: Clock, credentials_file: Path, *, urls: dict[str, str]) -> None:
    """Make what is missing; a second call changes nothing. `urls` go into a file that is made, for its readers.

    The file is written before the store: a crash between the two is healed by the next start, which takes the
    secrets from the file. Raises what `Fleet.change` raises, and `InvalidInput` for a file that cannot be read.
    """
    if not fleet.hash_key:
        await fleet.change(lambda _: _hash_key(fleet))
    credentials = read_credentials(credentials_file)
    if credentials is None and not fleet.admin_tokens:
        credentials = Credentials(
            api_key=new_secret(SecretKind.API_KEY), admin_token=new_secret(SecretKind.ADMIN_TOKEN)
        )
        _write(credentials_file, credentials, urls)
    if credentials is not None:
        await fleet.change(lambda _: _first_keys(fleet, credentials, clock))


def read_credentials(path: Path) -> Credentials | None:
    """Read the file; `None` when there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            f"cannot read credentials in {path}: {_cause(error)}",
            hint="it must be JSON with api_key and admin_token; or remove it",
            field="credentials_file",
        ) from error


def agent_token(path: Path) -> str:
    """Read the token that agents present; make it (mode 0600) when the file is absent."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the file {path} is not text, so it holds no agents' token",
            hint="remove it to have one made, or name another as agent_token_file",
            field="agent_token_file",
        ) from error
    except FileNotFoundError:
        token = new_agent_token()
        _replace(path, token + "\n")
    except OSError as error:
        raise InvalidInput(
            f"cannot read the agents' token in {path}: {_cause(error)}", field="agent_token_file"
        ) from error
    if not token:
        raise InvalidInput(
            f"the file {path} with the agents' token is empty",
            hint="write a token into it, or remove it to have one made",
            field="agent_token_file",
        )
    return token


def _hash_key(fleet: Fleet) -> tuple[Write, ...]:
    return () if fleet.hash_key else (PutSetting(name=HASH_KEY_SETTING, value=new_hash_key().hex()),)


def _first_keys(fleet: Fleet, credentials: Credentials, clock: Clock) -> tuple[Write, ...]:
    """Give what is missing of the two; what was revoked stays revoked."""
    writes: list[Write] = []
    token_id, key_id = public_id(credentials.admin_token), public_id(credentials.api_key)
    if all(token.id != token_id for token in fleet.admin_tokens):
        token = AdminToken(
            id=token_id,
            hash=hash_secret(fleet.hash_key, credentials.admin_token),
            name=FIRST_NAME,
            role=AdminRole.ADMIN,
            created_at=clock.now(),
        )
        writes.append(PutAdminToken(token=token))
    if all(key.id != key_id for key in fleet.api_keys):
        key = ApiKey(
            id=key_id,
            hash=hash_secret(fleet.hash_key, credentials.api_key),
            name=FIRST_NAME,
            created_at=clock.now(),
        )
        writes.append(PutApiKey(key=key))
    return tuple(writes)


def _write(path: Path, credentials: Credentials, urls: dict[str, str]) -> None:
    body: dict[str, Any] = {**msgspec.to_builtins(credentials), **urls}
    _replace(path, msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n")


def _replace(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private(path, text)
    except OSError as error:
        message = f"cannot write {path}: {_cause(error)}"
        raise InvalidInput(message, hint="check the folder's owner and space") from error


def _cause(error: Exception) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
