"""Which adapter asks which family."""

from llmgw.core.guard.judges.adapter import JudgeAdapter
from llmgw.core.guard.judges.llama_guard import LlamaGuard3
from llmgw.core.guard.judges.prompted import PromptedJudge
from llmgw.core.guard.judges.qwen_guard import Qwen3GuardGen
from llmgw.schema.guard.judge import JudgeFamily


def adapter(family: JudgeFamily, guideline: str | None = None) -> JudgeAdapter:
    """Make the adapter of a family. Only judges that are told what is not allowed read a guideline."""
    match family:
        case JudgeFamily.LLAMA_GUARD_3_1B | JudgeFamily.LLAMA_GUARD_3_8B:
            return LlamaGuard3(family)
        case JudgeFamily.QWEN3_GUARD_GEN:
            return Qwen3GuardGen()
        case JudgeFamily.PROMPTED:
            return PromptedJudge(guideline)
