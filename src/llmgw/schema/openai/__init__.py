"""OpenAI's public wire, as far as the gateway reads it. Fields it does not know pass on untouched."""
