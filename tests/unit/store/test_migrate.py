import subprocess
import sys

from llmgw.store.migrate import HEAD
from llmgw.store.upgrade import revisions


def test_the_known_head_is_the_newest_migration():
    assert revisions()[0] == HEAD


def test_a_control_plane_starts_without_importing_alembic():
    script = "import sys, llmgw.server.main; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
