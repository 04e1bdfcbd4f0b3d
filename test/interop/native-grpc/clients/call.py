"""One call with Python's grpcio: JSON on standard input, JSON on standard output."""

import json
import sys

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

sys.path.insert(0, sys.argv[1])
from istio.v1.auth import ca_pb2, ca_pb2_grpc  # noqa: E402


def read(path):
    with open(path, "rb") as file:
        return file.read()


def credentials(call):
    files = call.get("certificate")
    key, chain = (read(files["keyFile"]), read(files["certificateFile"])) if files else (None, None)
    return grpc.ssl_channel_credentials(read(call["rootsFile"]), key, chain)


def answer(call):
    options = [
        ("grpc.ssl_target_name_override", call["serverName"]),
        ("grpc.default_authority", call["serverName"]),
        ("grpc.enable_retries", 0),
    ]
    request = ParseDict(call["message"], ca_pb2.IstioCertificateRequest())
    with grpc.secure_channel(call["address"], credentials(call), options) as channel:
        stub = ca_pb2_grpc.IstioCertificateServiceStub(channel)
        try:
            headers = [tuple(header) for header in call["headers"]]
            response = stub.CreateCertificate(request, metadata=headers, timeout=20)
            return {"code": "OK", **MessageToDict(response)}
        except grpc.RpcError as error:
            return {"code": error.code().name, "message": error.details()}


print(json.dumps(answer(json.load(sys.stdin))))
