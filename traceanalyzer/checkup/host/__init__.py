"""The host beside the GPUs: its cores and who wants them, the ways between its GPUs and cards, how NCCL was set."""
