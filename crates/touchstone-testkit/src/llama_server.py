"""Holds a llama.cpp server for the length of a test.

The server is a thread of this process. Standard input is a pipe from the test: when it closes, for whatever reason,
the process leaves, so that a killed test leaves no server behind.
"""
import argparse
import os
import sys

import xllamacpp

options = argparse.ArgumentParser()
options.add_argument("--model", required=True)
options.add_argument("--port", type=int, required=True)
options.add_argument("--parallel", type=int, required=True)
options.add_argument("--context", type=int, required=True)
options.add_argument("--threads", type=int, required=True)
chosen = options.parse_args()

params = xllamacpp.CommonParams()
params.model.path = chosen.model
params.model_alias = {os.path.splitext(os.path.basename(chosen.model))[0]}
params.hostnames = ["127.0.0.1"]
params.port = chosen.port
params.n_parallel = chosen.parallel
params.n_ctx = chosen.context
params.cpuparams.n_threads = chosen.threads
params.endpoint_metrics = True
params.endpoint_slots = True

server = xllamacpp.Server(params)
print("listening on", server.listening_address, flush=True)
sys.stdin.buffer.read()
os._exit(0)
