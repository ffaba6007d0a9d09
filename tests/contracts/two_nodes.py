"""A Ray cluster of two node processes with a processor each, until its stdin is closed.

It prints its address and the process id of the second node's raylet.
"""

import os
import sys

# Ray then listens on the loopback interface only.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def main() -> None:
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    options = {"num_cpus": 1, "include_dashboard": False, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    second = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    (raylet,) = second.all_processes["raylet"]
    print(cluster.address, raylet.process.pid, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
