"""Holds a heavy inference engine (vLLM, FastChat, Triton) for the length of a test.

An engine here is several processes. They are started in this process's group; standard input is a pipe from the test:
when it closes, for whatever reason, the whole group ends, so that a killed test leaves no engine behind. When one of
the processes ends by itself, so does everything else.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.request

options = argparse.ArgumentParser()
options.add_argument("engine", choices=["vllm", "fastchat", "triton"])
options.add_argument("--folder", help="the model's folder, or Triton's model repository")
options.add_argument("--port", type=int, required=True)
options.add_argument("--second-port", type=int, required=True)
options.add_argument("--third-port", type=int, required=True)
chosen = options.parse_args()

packages = sysconfig.get_paths()["purelib"]
environment = dict(
    os.environ,
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    DO_NOT_TRACK="1",
    OMP_NUM_THREADS="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    LOGDIR=os.getcwd(),
    HOME=os.getcwd(),
)
port, second, third = str(chosen.port), str(chosen.second_port), str(chosen.third_port)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def vllm():
    return [
        [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", chosen.folder,
         "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port, "--dtype", "float32",
         "--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager"],
    ]


def fastchat():
    controller, worker = f"http://127.0.0.1:{third}", f"http://127.0.0.1:{second}"
    module = [sys.executable, "-m"]
    return [
        module + ["fastchat.serve.controller", "--host", "127.0.0.1", "--port", third],
        # The worker registers with a controller that is there already.
        f"{controller}/test_connection",
        module + ["fastchat.serve.model_worker", "--model-path", chosen.folder, "--model-names", "tiny",
                  "--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", second,
                  "--worker-address", worker, "--controller-address", controller,
                  "--limit-worker-concurrency", "2", "--stream-interval", "1", "--conv-template", "raw"],
        module + ["fastchat.serve.openai_api_server", "--host", "127.0.0.1", "--port", port,
                  "--controller-address", controller],
    ]


def triton():
    home = os.path.join(packages, "pytriton", "tritonserver")
    version = "%d.%d" % sys.version_info[:2]
    backends = os.path.join(home, "backends")
    # The stub finds its libraries relative to where it lies, so it goes into the package itself.
    stub = os.path.join(home, "python_backend_stubs", version, "triton_python_backend_stub")
    if not os.path.exists(os.path.join(backends, "python", "triton_python_backend_stub")):
        shutil.copy(stub, os.path.join(backends, "python"))
    environment["LD_LIBRARY_PATH"] = sysconfig.get_config_var("LIBDIR") or ""
    # An embedded Python looks for its packages beside the first `python3` of the path.
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment.get("PATH", "")
    return [
        [os.path.join(home, "bin", "tritonserver"), f"--model-repository={chosen.folder}",
         f"--backend-directory={backends}", "--disable-auto-complete-config",
         "--http-address=127.0.0.1", f"--http-port={port}", "--grpc-address=127.0.0.1", f"--grpc-port={second}",
         "--metrics-address=127.0.0.1", f"--metrics-port={third}"],
    ]


def leave(*_):
    os.killpg(os.getpgrp(), signal.SIGKILL)


def leave_with_the_test():
    sys.stdin.buffer.read()
    leave()


threading.Thread(target=leave_with_the_test, daemon=True).start()
running = []
for step in {"vllm": vllm, "fastchat": fastchat, "triton": triton}[chosen.engine]():
    if isinstance(step, str):
        while not answers(step) and all(one.poll() is None for one in running):
            time.sleep(0.1)
    else:
        running.append(subprocess.Popen(step, env=environment, stdin=subprocess.DEVNULL))
while all(one.poll() is None for one in running):
    time.sleep(0.2)
print("a process of the engine ended:", [one.poll() for one in running], flush=True)
leave()
