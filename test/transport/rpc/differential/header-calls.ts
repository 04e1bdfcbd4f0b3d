import { grpcFrame } from "../../../contract/rpc-calls.ts";
import { contentTypes, type DifferentialCall, messageOf, overBoth } from "./differential-call.ts";

const methods = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post"] as const;

const methodCalls: readonly DifferentialCall[] = [
  ...methods.flatMap((method) =>
    overBoth(() => ({ name: `method ${method}`, isFast: false, method })),
  ),
  {
    name: "a GET of Connect with its message in the query",
    protocol: "Connect",
    isFast: false,
    method: "GET",
    contentType: null,
    query: "?connect=v1&encoding=proto&base64=1&message=CgF4",
    body: () => [],
  },
  ...overBoth(() => ({ name: "a query, which the service ignores", query: "?a=b" })),
];

const fastTypes = ["application/proto", "application/grpc", "application/grpc+proto"];
const otherTypes = [
  ...["Application/Proto", "APPLICATION/GRPC", "application/GRPC+proto"],
  ...["application/proto; charset=utf-8", "application/grpc; charset=utf-8", "application/grpc;"],
  ...["application/proto, application/proto", "application/grpc, application/grpc"],
  ...["application/grpc+thrift", "application/grpcx", "application/connect+proto"],
  ...["application/x-protobuf", "text/plain", ""],
];

const typeCalls: readonly DifferentialCall[] = [...fastTypes, ...otherTypes].map((contentType) => ({
  name: `content type «${contentType}»`,
  protocol: /grpc/i.test(contentType) ? "gRPC" : "Connect",
  ...(!fastTypes.includes(contentType) && { isFast: false }),
  contentType,
}));

const jsonOf = (csr: string): Uint8Array => new TextEncoder().encode(JSON.stringify({ csr }));

const jsonCalls: readonly DifferentialCall[] = [
  {
    name: "JSON",
    protocol: "Connect",
    isFast: false,
    contentType: "application/json",
    body: ({ csrPem }) => [jsonOf(csrPem)],
  },
  {
    name: "JSON with its character set",
    protocol: "Connect",
    isFast: false,
    contentType: "application/json; charset=utf-8",
    body: ({ csrPem }) => [jsonOf(csrPem)],
  },
  {
    name: "JSON",
    protocol: "gRPC",
    isFast: false,
    contentType: "application/grpc+json",
    body: ({ csrPem }) => [grpcFrame(jsonOf(csrPem))],
  },
];

const encoding = { Connect: "content-encoding", gRPC: "grpc-encoding" } as const;
const acceptEncoding = { Connect: "accept-encoding", gRPC: "grpc-accept-encoding" } as const;

const encodingCalls: readonly DifferentialCall[] = [
  ...["gzip", "br", "Identity", "", "identity, gzip"].flatMap((value) =>
    overBoth((protocol) => ({
      name: `encoding «${value}»`,
      isFast: false,
      headers: [[encoding[protocol], value]],
    })),
  ),
  ...overBoth((protocol) => ({
    name: "encoding «identity»",
    headers: [[encoding[protocol], "identity"]],
  })),
  ...["gzip", "identity", "gzip, br;q=0.5", ""].flatMap((value) =>
    overBoth((protocol) => ({
      name: `an answer may be encoded as «${value}»`,
      headers: [[acceptEncoding[protocol], value]],
    })),
  ),
  ...overBoth((protocol) => ({
    name: "the encoding of the other protocol",
    headers: [[encoding[protocol === "gRPC" ? "Connect" : "gRPC"], "gzip"]],
  })),
];

const otherHeaders: readonly (readonly [string, string])[] = [
  ["connect-protocol-version", "1"],
  ["connect-protocol-version", "2"],
  ["connect-protocol-version", ""],
  ["te", "trailers"],
  ["te", "gzip"],
  ["trailer", "x-checksum"],
  ["grpc-status", "0"],
  ["trailer-x", "y"],
  ["x-bin", "not base64"],
  ["user-agent", "grpc-go/1.70.0"],
];

const otherCalls: readonly DifferentialCall[] = [
  ...otherHeaders.flatMap((header) =>
    overBoth(() => ({
      name: `header ${header.join(": ")}`,
      headers: [header],
    })),
  ),
  ...overBoth(() => ({
    name: "a header that comes twice",
    headers: [
      ["x-other", "a"],
      ["x-other", "b"],
    ],
  })),
  ...overBoth((protocol) => ({
    name: "a content type that comes twice",
    isFast: false,
    headers: [["content-type", contentTypes[protocol]]],
  })),
  {
    name: "a content length that the body falls short of",
    protocol: "Connect",
    headers: [["content-length", "5000"]],
  },
  {
    name: "a content length that the body exceeds",
    protocol: "Connect",
    headers: [["content-length", "5"]],
  },
  {
    name: "a content length beyond the limit",
    protocol: "Connect",
    headers: [["content-length", "65537"]],
    body: (sample) => [messageOf(sample)],
  },
];

/** Calls that differ in their method and their headers. */
export const headerCalls: readonly DifferentialCall[] = [
  ...methodCalls,
  ...typeCalls,
  ...jsonCalls,
  ...encodingCalls,
  ...otherCalls,
];
