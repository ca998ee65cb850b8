"""Training jobs of any number of GPUs with a planted late rank, and their captures with what was planted.

Runs where the GPUs are, with nothing of this project installed: copy this folder there, to a neutral place, since
traces hold the paths of programs, and start it beside the folder:

    python -m recording --out out                          # a process a GPU
    python -m recording --out out --ranks 8 --share-gpu    # eight processes on one GPU
    python -m recording --out out --ranks 4 --tiny         # to try it on CPUs

It needs PyTorch, and `nsys` for reports of Nsight Systems (NSYS says where it is). A capture is a folder of one trace
a rank with `truth.json`: what was planted, and what the program measured on the host. `tests/passes/
test_recorded_jobs.py` holds the answers to it.
"""
