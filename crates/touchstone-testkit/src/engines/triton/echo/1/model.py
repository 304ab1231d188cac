"""A model that is not decoupled: gives its prompt back, 2 ms later."""
import time

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.002)
        return [self.echo(request) for request in requests]

    def echo(self, request):
        prompt = pb.get_input_tensor_by_name(request, "text_input").as_numpy()
        return pb.InferenceResponse([pb.Tensor("text_output", prompt)])
