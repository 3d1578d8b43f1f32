"""Work cut into shards, done by processes of this machine or by dask's workers on many, merged as they finish.

Uses `kprobe_vm.errors` and the standard library, and dask.distributed in `cluster` and `member`.  Start with `shard`,
then `work`; what the shards are about is above.
"""
