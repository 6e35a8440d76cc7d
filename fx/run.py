"""``python -m fx.run --nproc-per-node 2 train.py``: a script in several processes, as torchrun.

``fx/distributed/launch/README.md`` says how the ranks find each other, die and start again.
"""

import sys

from fx.distributed.launch import main

if __name__ == "__main__":
    sys.exit(main())
