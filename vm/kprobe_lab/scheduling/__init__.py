"""Takes work cut into shards; gives each result as it finishes, from processes of this machine or dask's workers on
many.

Start with `shard`, then `work`.  It doesn't know what shards are about; only `cluster` and `member` import dask.
"""
