"""The agent link and the gateway's control link: messages, frames, client and server side."""
