"""A decoupled model for Triton's Python backend: one word a response, `max_tokens` of them, one every 5 ms.

A prompt that begins with `fail-first` fails before the first word, one that begins with `fail-late` after two words.
"""
import json
import threading
import time

import numpy as np
import triton_python_backend_utils as pb

WORDS = "amber birch copper dune ember fjord".split()
STEP_S = 0.005


def value(request, name, default):
    tensor = pb.get_input_tensor_by_name(request, name)
    if tensor is None:
        return default
    item = tensor.as_numpy().reshape(-1)[0]
    return item.decode() if isinstance(item, bytes) else item.item()


def answer(text):
    return pb.InferenceResponse([pb.Tensor("text_output", np.array([text.encode()], dtype=np.object_))])


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            threading.Thread(target=self.speak, args=(request, sender), daemon=True).start()

    def speak(self, request, sender):
        prompt = value(request, "text_input", "")
        sampling = json.loads(value(request, "sampling_parameters", "{}"))
        words = int(value(request, "max_tokens", sampling.get("max_tokens", 16)))
        streaming = bool(value(request, "stream", False))
        failure = {"fail-first": 0, "fail-late": 2}.get(prompt.split(" ")[0])
        text = ""
        for number in range(words):
            if request.is_cancelled():
                break
            if number == failure:
                sender.send(pb.InferenceResponse(error=pb.TritonError("the model failed, as it was asked to")))
                break
            time.sleep(STEP_S)
            word = " " + WORDS[number % len(WORDS)]
            text += word
            if streaming:
                sender.send(answer(word))
        else:
            if not streaming:
                sender.send(answer(text))
        sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
